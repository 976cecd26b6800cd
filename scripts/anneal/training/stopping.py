"""SIGTERM and SIGUSR1, as sent before a time limit or a preemption, end in a checkpoint."""

import signal

from transformers import TrainerCallback

from anneal.errors import Interrupted
from anneal.training.processes import highest

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopOnSignal(TrainerCallback):
    """Ends training after the step in which a signal came, with a checkpoint of that step.

    Args:
        listens: False where no checkpoint can be saved; a signal then ends the process at once.
    """

    def __init__(self, listens: bool = True):
        self.received: signal.Signals | None = None
        for number in SIGNALS if listens else ():
            signal.signal(number, self._receive)

    def _receive(self, number, frame):
        self.received = signal.Signals(number)

    def on_step_end(self, args, state, control, **_):
        if number := highest(self.received or 0):  # it may reach the processes in different steps
            self.received = signal.Signals(number)
        if self.received and state.global_step < state.max_steps:
            control.should_log = control.should_save = control.should_training_stop = True

    def check(self, state) -> None:
        """Raises Interrupted if training ended early for a signal."""
        if self.received and state.global_step < state.max_steps:
            raise Interrupted(self.received, f"checkpoint saved at step {state.global_step}")
