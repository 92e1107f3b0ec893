"""Language models: networks, renderers between text and token ids, and samplers of replies."""

import os

# transformers reads this at import; models must not download compiled code
os.environ.setdefault("USE_HUB_KERNELS", "NO")
