"""The calls of Liststore's HTTP API that the online store needs."""

from typing import Any, Iterable, Optional
from urllib.parse import quote

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

# Requests refused with these statuses had no effect, or may be repeated, like every write here.
_RETRIED = Retry(total=4, status_forcelist=(429, 503), backoff_factor=0.1, respect_retry_after_header=True,
                 allowed_methods=None, raise_on_status=False)
CONNECTIONS_MAX = 16


class ListstoreError(RuntimeError):
    """A refusal or a failure, with the problem document of the server."""

    def __init__(self, status: int, problem: dict):
        super().__init__(f"{problem.get('code', status)}: {problem.get('detail', problem.get('title', ''))}")
        self.status = status
        self.code = problem.get("code", "")


def path(*segments: str) -> str:
    """A path of its segments, each encoded."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


class Client:
    def __init__(self, url: str, token: Optional[str], timeout_secs: float):
        self._url = url.rstrip("/")
        self._timeout_secs = timeout_secs
        self._session = requests.Session()
        adapter = HTTPAdapter(pool_maxsize=CONNECTIONS_MAX, max_retries=_RETRIED)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, at: str, body: Any = None, params: Optional[dict] = None,
             headers: Optional[dict] = None, accept: Iterable[str] = ()) -> Any:
        """Answers the JSON of a success; None for an error whose code is in `accept`."""
        answer = self._session.request(method, self._url + at, json=body, params=params, headers=headers,
                                       timeout=self._timeout_secs)
        if answer.ok:
            return answer.json() if answer.content else None
        is_problem = answer.headers.get("Content-Type", "").startswith("application/problem+json")
        problem = answer.json() if is_problem else {"detail": answer.text[:200]}
        if problem.get("code") in accept:
            return None
        raise ListstoreError(answer.status_code, problem)

    def close(self) -> None:
        self._session.close()
