"""The one error that means "the user can fix this": shown as one line, never as a traceback."""


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
