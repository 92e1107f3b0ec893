"""Chat templates by name, for tokenizers that bring none or one that cannot be used.

All are prefix-stable. The last is for base models: text that they complete, with their own end.
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

COMPLETION = (
    "{{ bos_token or '' }}{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ ' ' + message['content'] + eos_token + '\n\n' }}{% elif message['role'] == 'system' %}"
    "{{ message['content'] + '\n\n' }}{% else %}{{ message['content'] + '\n\nAnswer:' }}"
    "{% endif %}{% endfor %}"
)

TEMPLATES = {"chatml": CHATML, "gemma": GEMMA, "completion": COMPLETION}
