"""Learners of a run as forks of the test's process, which has already imported torch and transformers."""

import contextlib
import importlib
import os
import re
import subprocess
import sys
import traceback


def popen(command, *, pass_fds, env, **options):
    """Fork a process that runs CODE, in place of ``subprocess.Popen`` with ``python -c CODE``.

    The fork inherits the loaded modules and keeps only the standard descriptors and ``pass_fds``.
    """

    def run():
        for number in {*map(int, os.listdir("/dev/fd"))} - {0, 1, 2, *pass_fds}:
            with contextlib.suppress(OSError):  # the descriptor of the listing is already closed
                os.close(number)
        os.environ.clear()
        os.environ.update(env)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        try:
            exec(command[-1], {})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    importlib.import_module(re.search(r"from (\S+) import", command[-1])[1])
    return subprocess.Popen(["true"], preexec_fn=run, pass_fds=pass_fds, **options)
