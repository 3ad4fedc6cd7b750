"""What can go wrong on the way to a data set."""


class DataNotFound(FileNotFoundError):
    """A data set is not on this machine. The message says what to set, or which command fetches it."""


class DownloadError(OSError):
    """A download failed. The message names the address, the reason and what to do."""
