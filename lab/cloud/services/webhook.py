"""What Alertmanager posts, appended to a file: a JSON object a line. Run by file: ``webhook.py PORT FILE``."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Receiver(BaseHTTPRequestHandler):
    file = Path()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        post = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # Whole lines, in one write each: several threads may append, and somebody reads meanwhile.
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, (json.dumps(post) + "\n").encode())
        finally:
            os.close(descriptor)
        self._answer()

    def _answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:
        pass


if __name__ == "__main__":
    Receiver.file = Path(sys.argv[2])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
