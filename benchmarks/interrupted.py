"""`python -m benchmarks.interrupted`: kills `mostfw reproduce --quick` at random moments.

Makes an undisturbed run and one that is killed five times (SIGKILL, at moments spread over the
time that the first one took) and started again; then compares all tables and histories, byte for
byte. Takes a little more than twice as long as a quick run.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KILLS = 5


def command(out: Path) -> list[str]:
    return [sys.executable, "-m", "mostfw.cli", "reproduce", "--quick", "--out", str(out)]


def undisturbed(out: Path) -> float:
    began = time.monotonic()
    subprocess.run(command(out), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def killed(out: Path, after: float) -> bool:
    """Starts it and kills it after so many seconds; False if it had ended by then."""
    process = subprocess.Popen(command(out), stdout=subprocess.DEVNULL)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def contents(out: Path) -> dict[str, bytes]:
    paths = [*out.glob("tables/*.csv"), *out.glob("runs/**/history.csv")]
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def main() -> int:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "undisturbed", Path(folder) / "killed"
        seconds = undisturbed(first)
        print(f"undisturbed: {seconds:.0f} s; seed of the kills: {seed}", flush=True)
        hit = 0
        for number in range(1, KILLS + 1):
            moment = rng.uniform(0.02, 0.18) * seconds
            alive = killed(second, moment)
            hit += alive
            state = "killed" if alive else "had ended"
            done = len(list(second.glob("runs/**/complete.json")))
            print(f"start {number}: {state} after {moment:.1f} s, {done} runs complete", flush=True)
        undisturbed(second)
        one, other = contents(first), contents(second)
    differ = sorted(name for name in one | other if one.get(name) != other.get(name))
    print(f"{len(one)} files compared, {len(differ)} differ", *differ[:10], sep="\n")
    return 1 if differ or not hit else 0


if __name__ == "__main__":
    raise SystemExit(main())
