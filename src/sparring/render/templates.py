"""Chat templates by name, for tokenizers that bring none or one that cannot be used.

Both are prefix-stable.
"""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}"
)

GEMMA = (
    "{{ '<bos>' }}{% for message in messages %}{{ '<start_of_turn>' + ('model' if message['role'] "
    "== 'assistant' else 'user') + '\n' + message['content'] + '<end_of_turn>\n' }}{% endfor %}{% "
    "if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)

TEMPLATES = {"chatml": CHATML, "gemma": GEMMA}
