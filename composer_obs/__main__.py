"""``python -m composer_obs`` is ``composer-obs``."""

from __future__ import annotations

from composer_obs.cli import main

if __name__ == "__main__":
    main()
