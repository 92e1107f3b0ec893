"""What runs in vLLM's own environment: nothing here is imported by Sparring."""
