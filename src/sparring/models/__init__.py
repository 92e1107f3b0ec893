"""Networks and tokenizers."""

import os

os.environ.setdefault("USE_HUB_KERNELS", "NO")  # transformers reads it when it is imported: no model fetches compiled code
