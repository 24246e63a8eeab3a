"""Known weaknesses of the installed packages, by pip-audit; where its service cannot be reached,
that is said, and is no failure: `python -m benchmarks.audit`."""

from __future__ import annotations

import json
import subprocess
import sys

SECONDS = 120
PER_REQUEST = 10


def main(seconds: float = SECONDS) -> int:
    """0 if nothing is known, or nothing can be asked; 1 with a list of what is known."""
    command = [sys.executable, "-m", "pip_audit", "--local", "--skip-editable"]
    command += ["--progress-spinner=off", f"--timeout={PER_REQUEST}", "--format=json"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return _unknown(f"no answer within {seconds:g} s")
    try:
        packages = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):  # it has no answer: an error is all that it wrote
        return _unknown((run.stderr.strip().splitlines() or ["no answer"])[-1][:200])
    known = [package for package in packages if "skip_reason" not in package]
    if not known:  # an index without the packages, or without what is known of them
        return _unknown(f"all {len(packages)} packages were skipped")
    found = [
        f"{package['name']} {package['version']}: {weakness['id']}, mended in "
        f"{', '.join(weakness.get('fix_versions') or []) or 'no version yet'}"
        for package in known
        for weakness in package.get("vulns", [])
    ]
    print("\n".join(found) or f"audit: nothing is known against {len(known)} packages.")
    return int(bool(found))


def _unknown(why: str) -> int:
    print(f"audit: the list of known weaknesses cannot be reached, nothing was checked ({why}).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
