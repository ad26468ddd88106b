"""
Poor Man's Configurator: $ python train.py --batch_size=32 overrides the globals of the script.
"""

import sys
from ast import literal_eval

for arg in sys.argv[1:]:
    assert arg.startswith("--")
    key, val = arg[2:].split("=")
    if key in globals():
        try:
            attempt = literal_eval(val)
        except (SyntaxError, ValueError):
            attempt = val
        print(f"Overriding: {key} = {attempt}")
        globals()[key] = attempt
    else:
        raise ValueError(f"Unknown config key: {key}")
