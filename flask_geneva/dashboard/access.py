"""Who may look: nobody outside debug mode, until the application says who."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import current_app
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response

# Called in the request, without arguments: a true answer lets in, a response is sent, anything else is 404.
Access = Callable[[], Any]


def let_in(access: Access | None) -> Response | None:
    """Return None for one who may look, or the response to send instead.

    :raises NotFound: to everybody else, who learns nothing of what is here.
    """
    if access is None:
        if current_app.debug:
            return None
        raise NotFound
    answer = current_app.ensure_sync(access)()
    if isinstance(answer, Response):
        return answer
    if not answer:
        raise NotFound
    return None
