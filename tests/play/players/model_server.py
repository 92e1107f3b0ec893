"""A local model server whose HTTP responses come from the test."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Answers request i with ``answers(i, request)``, a body or (status, body, headers), and stores the requests."""

    def __init__(self, answers):
        self.requests, self.paths, self.keys, self.lock = [], [], [], threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer.lock:
                    number = len(outer.requests)
                    outer.requests.append(request)
                    outer.paths.append(self.path)
                    outer.keys.append(self.headers["authorization"])
                answer = answers(number, request)
                status, body, headers = answer if isinstance(answer, tuple) else (200, answer, {})
                body = body.encode()
                self.send_response(status)
                for name, value in {
                    "content-type": "application/json",
                    "content-length": str(len(body)),
                    **headers,
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # in some tests the client has already given up
                    self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
