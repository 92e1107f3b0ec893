import os
import signal
import threading

import pytest

from sparring.core.process import GracefulStop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_interrupts(number, caplog):
    before = signal.getsignal(number)
    with GracefulStop() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        assert f"the step under way is finished and saved first. A second {signal.Signals(number).name} stops at once" in caplog.text
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            signal.pause()
    assert signal.getsignal(number) is before


def test_outside_the_main_thread_it_changes_nothing():
    seen = []
    before = signal.getsignal(signal.SIGINT)

    def work():
        with GracefulStop() as stop:
            seen.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
    assert signal.getsignal(signal.SIGINT) is before
