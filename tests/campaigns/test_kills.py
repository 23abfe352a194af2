"""What the campaign of killed commands has found. Its commands take too long for a
slice.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

from bochner.whole_files import replacing

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals as Unix has them")
WRITER = """
import os, sys, time
from bochner.whole_files import replacing
with replacing("file") as temporary, open(temporary, "w") as file:
    print("ready", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_was_writing_is_removed(tmp_path, monkeypatch):
    """But not what another one is writing."""
    monkeypatch.chdir(tmp_path)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 2
        writers[0].kill()
        writers[0].wait()
        (tmp_path / ".bochner-00000000-1-00000000.tmp").write_text("of another machine")
        with replacing("other") as temporary, open(temporary, "w") as file:
            file.write("whole")
        left = sorted(os.listdir())
        assert left[0] == ".bochner-00000000-1-00000000.tmp"
        assert [f"-{writers[1].pid}-" in name for name in left[1:]] == [True, False]
        assert left[2] == "other"
    finally:
        for writer in writers:
            writer.kill()
            with writer:
                pass


def test_sigterm_is_told_and_leaves_nothing(tmp_path):
    code = "import time, bochner.cli.app as app\n"
    code += "app.app = lambda **_: (print('ready', flush=True), time.sleep(60))\n"
    code += "from bochner.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert (*process.communicate(timeout=60), process.returncode) == (
        "",
        "interrupted\n",
        143,
    )
