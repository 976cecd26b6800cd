"""Whether evaluation may reach the Hub: its libraries ask the environment when imported."""

import atexit
import os
import shutil
import tempfile


def allow(download: bool) -> None:
    """Close the Hub, unless it was opened by `evaluate.download`.

    Closed, local files are prepared in a folder of this process, which is gone when it ends. Open,
    the user's own caches are used, so that a node without network finds what another one fetched.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if not download:
        cache = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, cache, ignore_errors=True)
        os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_EVALUATE_OFFLINE="1")
        os.environ["HF_DATASETS_CACHE"] = cache
