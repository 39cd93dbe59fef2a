"""The prompt: lines from a terminal until a statement ends, with colours, completion, history."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.styles import Style, style_from_pygments_cls
from prompt_toolkit.styles.base import BaseStyle
from prompt_toolkit.styles.style import merge_styles
from pygments.styles import get_style_by_name

from millrace.cli.shell.commands import EditText, QuitShell, command
from millrace.cli.shell.completion import ShellCompleter
from millrace.cli.shell.names import Names
from millrace.cli.shell.pieces import cut, pieces
from millrace.cli.shell.shell import Shell
from millrace.lang.highlighting import CqlLexer

PROMPT, MORE = "millrace> ", "      ... "


def talk(shell: Shell, *, history: Path | None = None) -> int:
    """Read and do statements until the user leaves; return the exit status."""
    names = Names(shell.client)
    shell.declared = names.refresh
    names.refresh()
    lines = _session(names, _history(history))
    text, proposed = "", ""
    while True:
        try:
            text = lines.prompt(default=proposed).strip()
            proposed = ""
            _do(shell, text)
        except KeyboardInterrupt:
            proposed = ""  # what was being typed, or waited for, is given up
        except EditText as edited:
            proposed = str(edited)
        except (EOFError, QuitShell):
            return 0


def _do(shell: Shell, text: str) -> None:
    if text.startswith("\\"):
        shell.attempt(lambda: command(shell, text))
        return
    for piece in pieces(text):
        if not shell.attempt(lambda piece=piece: shell.do(piece)):  # type: ignore[misc]
            return


def _session(names: Names, history: History) -> PromptSession[str]:
    return PromptSession(
        FormattedText([("class:prompt", PROMPT)]),
        multiline=True,
        prompt_continuation=lambda width, _, __: FormattedText([("class:more", MORE.rjust(width))]),
        lexer=PygmentsLexer(CqlLexer),
        completer=ThreadedCompleter(ShellCompleter(names)),
        complete_while_typing=True,
        history=history,
        enable_open_in_editor=True,
        key_bindings=_keys(),
        style=_style(),
        include_default_pygments_style=False,
    )


def _keys() -> KeyBindings:
    """Make Enter end a statement that is complete, and begin a new line otherwise."""
    keys = KeyBindings()

    @keys.add("enter", filter=Condition(_is_complete))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def _is_complete() -> bool:
    from prompt_toolkit.application import get_app

    text = get_app().current_buffer.text.strip()
    return not text or text.startswith("\\") or (text.endswith(";") and not cut(text)[1])


def _style() -> BaseStyle:
    if "NO_COLOR" in os.environ:
        return Style([])
    own = Style([("prompt", "bold"), ("more", "#888888")])
    return merge_styles([style_from_pygments_cls(get_style_by_name("default")), own])


def _history(path: Path | None) -> History:
    """Open the file of what was typed before; where none can be written there is none."""
    if path is None:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(state) / "millrace" / "sql_history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
