"""Kubernetes' API of external metrics, in tests: one metric, whose value is what a file says at that moment.

usage: metrics_api.py ADDRESS:PORT CERTIFICATE KEY FILE    listens there, with TLS, until it is ended

The paths and the shapes are those of k8s.io/metrics, external.metrics.k8s.io/v1beta1.
"""

import datetime
import http.server
import json
import pathlib
import ssl
import sys

GROUP_VERSION = "external.metrics.k8s.io/v1beta1"


class Metrics(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("?")[0].strip("/").split("/")
        if path[:3] != ["apis", *GROUP_VERSION.split("/")]:
            return self.answer(404, {})
        if len(path) == 3:
            return self.answer(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": []})
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        value = pathlib.Path(sys.argv[4]).read_text().strip()
        items = [{"metricName": path[-1], "metricLabels": {}, "timestamp": now, "value": value}]
        self.answer(200, {"kind": "ExternalMetricValueList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": items})

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


host, port = sys.argv[1].rsplit(":", 1)
server = http.server.ThreadingHTTPServer((host, int(port)), Metrics)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
