#!/bin/bash
# Counts words, and keeps what it has counted in model.pt: written in place, a part at a time.
set -e
steps=${STEPS:-25}
step=0
if [ -s model.pt ]; then
  step=$(python3 -c 'import torch; print(torch.load("model.pt")["step"])')
fi
while [ "$step" -lt "$steps" ]; do
  step=$((step + 1))
  sleep "${PAUSE:-1.2}"
  echo "step $step/$steps | loss $(( 1000 / step ))"
  if [ $((step % 5)) -eq 0 ]; then
    python3 - "$step" <<'PY'
import io, sys, time, torch
data = io.BytesIO()
torch.save({"step": int(sys.argv[1]), "counts": torch.zeros(50_000)}, data)
data = data.getvalue()
with open("model.pt", "wb") as f:
    for start in range(0, len(data), 20_000):
        f.write(data[start:start + 20_000])
        f.flush()
        time.sleep(0.02)
PY
  fi
done
echo "$step" > done.txt
