"""The one error that means "the user can fix this": shown as one line, never as a traceback."""

from signal import Signals


class UserError(Exception):
    """A mistake in the user's data, settings or machine.

    Args:
        where: file, `file:line` or configuration path.
        what: what is wrong there.
        do: what to do about it.
    """

    def __init__(self, where: str, what: str, do: str = ""):
        self.where, self.what, self.do = str(where), what, do
        super().__init__(f"{self.where}: {what}" + (f"; {do}" if do else ""))


class Interrupted(Exception):
    """A signal ended the work early, and nothing was lost.

    Args:
        signal: what was received; it decides the exit code, 128 and its number.
        what: what was saved.
    """

    def __init__(self, signal: Signals, what: str):
        self.code = 128 + signal
        super().__init__(f"stopped by {signal.name}: {what}; run the same command to go on")
