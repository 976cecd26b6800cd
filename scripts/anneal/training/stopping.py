"""SIGTERM and SIGUSR1, as sent before a time limit or a preemption, end in a checkpoint."""

import signal

from transformers import TrainerCallback

from anneal.errors import Interrupted

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopOnSignal(TrainerCallback):
    """Ends training after the step in which a signal came, with a checkpoint of that step."""

    def __init__(self):
        self.received: signal.Signals | None = None
        for number in SIGNALS:
            signal.signal(number, self._receive)

    def _receive(self, number, frame):
        self.received = signal.Signals(number)

    def on_step_end(self, args, state, control, **_):
        if self.received and state.global_step < state.max_steps:
            control.should_log = control.should_save = control.should_training_stop = True

    def check(self, state) -> None:
        """Raises Interrupted if training ended early for a signal."""
        if self.received and state.global_step < state.max_steps:
            raise Interrupted(self.received, f"checkpoint saved at step {state.global_step}")
