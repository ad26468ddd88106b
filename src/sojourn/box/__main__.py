"""The keeper's first step, at the top of its zipapp.

Any Python can read this file, so that an old one can say that it is too old.
"""

import os
import sys

if sys.version_info < (3, 8):
    sys.stderr.write("sojourn:old-python %s\n" % sys.version.split()[0])
    sys.exit(127)

# Byte code of this very file, if `hello` has kept it (`compiled.name`).
sys.path.insert(0, "%s.%s-%x.zip" % (os.path.abspath(sys.argv[0])[:-4], sys.implementation.cache_tag, sys.hexversion))

from sojourn.box.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
