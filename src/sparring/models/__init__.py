"""Networks and tokenizers."""

import os

# transformers reads it when it is imported: no model fetches compiled code
os.environ.setdefault("USE_HUB_KERNELS", "NO")
