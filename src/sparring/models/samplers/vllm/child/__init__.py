"""Programs that run in vLLM's environment; Sparring never imports them."""
