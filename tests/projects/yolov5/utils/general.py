import glob
import re
from pathlib import Path

import yaml


def increment_path(path, exist_ok=False, sep="", mkdir=False):
    path = Path(path)
    if path.exists() and not exist_ok:
        for n in range(2, 9999):
            p = f"{path}{sep}{n}"
            if not Path(p).exists():
                break
        path = Path(p)
    return path


def get_latest_run(search_dir="."):
    last_list = glob.glob(f"{search_dir}/**/last*.pt", recursive=True)
    return max(last_list, key=lambda p: Path(p).stat().st_mtime) if last_list else ""


def yaml_save(file="data.yaml", data=None):
    with open(file, "w") as f:
        yaml.safe_dump(data or {}, f, sort_keys=False)


def print_mutation(keys, results, hyp, save_dir):
    with open(save_dir / "evolve.csv", "a") as f:
        f.write(",".join(keys))
    Path("hyp_evolve.yaml").write_text(str(True))
