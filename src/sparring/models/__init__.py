"""Networks, text to tokens and back, and samplers."""

import os

# transformers reads it when it is imported: no model fetches compiled code
os.environ.setdefault("USE_HUB_KERNELS", "NO")
