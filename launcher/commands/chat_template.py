"""Renders conversations with a Jinja2 chat template and finds the text of their targets.

`trireme data chat` and `trireme sample --chat` run this program once; it is a part of the trireme binary. Its standard
input is a JSON object: "folder" (of the tokenizer), "contents" (texts of the folder's files by name, or null: they are
read), "remedy" (for a missing template), and either "files" (JSON lines) and "targets" ("assistant", "last" or "all"),
or "chats" (lists of messages that the assistant is to answer). It writes JSON lines:

    {"ends": [special tokens], "literals": [tokens in the template's text], "date": bool,
     "end": text after an answer, empty where it has a special token, "stops": [special tokens that end an answer],
     "legacy": bool}                                                                        first
    {"where": "FILE:LINE", "text": "...", "spans": [[begin, end], ...]}                     a conversation
    {"error": "..."}                                                                        last, if any

Spans are bytes of UTF-8. A span begins where the generation prompt ends, so a model that is sampled sees the same
text before it.
"""

import datetime
import json
import os
import re
import secrets
import sys


class Refused(Exception):
    """An input that cannot be used; the text is for the user."""


try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox
except ImportError:
    print(json.dumps({"error": "python3 has no Jinja2, which renders chat templates: apt-get install python3-jinja2"}))
    sys.exit(0)

SPECIAL = re.compile(r"<[^<>\s]+>|\[/?[A-Z_]+\]")
LITERAL = re.compile(r"<\|[^<>|\s]+\|>")
BLOCK = re.compile(r"\{%[-+]?\s*generation\b")


class Folder:
    """The files of a tokenizer's folder, or their contents as a checkpoint keeps them."""

    def __init__(self, request):
        self.place, self.contents, self.remedy = request["folder"], request["contents"], request["remedy"]
        if self.contents is None and not os.path.isdir(self.place):
            raise Refused(f"--tokenizer {self.place}: there is no such folder")

    def path(self, name):
        """The file in messages."""
        return os.path.join(self.place, name) if self.contents is None else f"{name} of {self.place}"

    def read(self, name):
        """The text of a file; None if there is none."""
        if self.contents is not None:
            return self.contents.get(name)
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Refused(f"{self.path(name)} cannot be read: {error}") from error

    def read_json(self, name):
        text = self.read(name)
        if text is None:
            return {}
        try:
            value = json.loads(text)
        except ValueError as error:
            raise Refused(f"{self.path(name)} cannot be read: {error}") from error
        if not isinstance(value, dict):
            raise Refused(f"{self.path(name)} is not a JSON object")
        return value

    def template(self):
        """The source of the template and the file that holds it."""
        text = self.read("chat_template.jinja")
        if text is not None:
            return text, self.path("chat_template.jinja")
        for name in ("tokenizer_config.json", "chat_template.json"):
            found = self.read_json(name).get("chat_template")
            if isinstance(found, list):  # named templates
                found = {entry.get("name"): entry.get("template") for entry in found}.get("default")
            if isinstance(found, str):
                return found, self.path(name)
        raise Refused(f"{self.place} has no chat template: neither chat_template.jinja nor \"chat_template\" in "
                      f"tokenizer_config.json. {self.remedy}")

    def special_tokens(self):
        """The variables bos_token, eos_token and others of templates."""
        tokens = {}
        for name in ("special_tokens_map.json", "tokenizer_config.json"):
            for key, value in self.read_json(name).items():
                if isinstance(value, dict):
                    value = value.get("content")
                if key.endswith("_token") and isinstance(value, str):
                    tokens[key] = value
        return tokens


class TargetBlock(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: the text of targets, between two marks."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller):
        begin, end = self.environment.target_marks
        return begin + caller() + end


def raise_exception(message):
    raise jinja2.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Template:
    def __init__(self, folder):
        self.source, self.path = folder.template()
        self.tokens = folder.special_tokens()
        self.is_legacy = folder.read_json("tokenizer_config.json").get("legacy") is True
        self.has_blocks = BLOCK.search(self.source) is not None
        today = datetime.datetime.now()  # once: all conversations have the same date
        self.environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[TargetBlock, "jinja2.ext.loopcontrols"])
        self.environment.target_marks = ("", "")
        self.environment.filters["tojson"] = to_json
        self.environment.globals.update(raise_exception=raise_exception, strftime_now=today.strftime)
        try:
            self.compiled = self.environment.from_string(self.source)
        except jinja2.TemplateSyntaxError as error:
            raise Refused(f"{self.path}: the chat template is not valid in its line {error.lineno}: {error}") from error
        self.end, self.trailing = self.end_of_turn()

    def render(self, messages, tools=None, prompt=False, marks=("", "")):
        self.environment.target_marks = marks
        try:
            return self.compiled.render(messages=messages, tools=tools, documents=None, add_generation_prompt=prompt,
                                        **self.tokens)
        except Exception as error:  # templates are programs and raise anything
            raise Refused(f"the chat template of {self.path} raises: {error}") from error

    def end_of_turn(self):
        """The text after an answer, and its white space that is no target because a token already ends the turn."""
        answer = secrets.token_hex(16)
        text = self.render([{"role": "user", "content": "a"}, {"role": "assistant", "content": answer}])
        if answer not in text:
            raise Refused(f"the chat template of {self.path} does not write the content of an assistant's turn")
        end = text[text.rindex(answer) + len(answer):]
        return end, end[len(end.rstrip()):] if end.strip() else ""

    def header(self):
        names = [value for key, value in sorted(self.tokens.items())
                 if key in ("bos_token", "eos_token") and re.search(rf"\b{key}\b", self.source)]
        stops = list(dict.fromkeys(SPECIAL.findall(self.end)))
        ends = list(dict.fromkeys(names + stops))
        literals = [word for word in dict.fromkeys(LITERAL.findall(self.source)) if word not in ends]
        eos = self.tokens.get("eos_token")
        return {"ends": ends, "literals": literals, "date": "strftime_now" in self.source,
                "end": "" if stops else self.end, "legacy": self.is_legacy,
                "stops": stops + ([eos] if eos is not None and eos not in stops else [])}

    def block_spans(self, messages, tools, full):
        begin, end = secrets.token_hex(16), secrets.token_hex(16)
        marked = self.render(messages, tools, marks=(begin, end))
        if marked.replace(begin, "").replace(end, "") != full:
            raise Refused("the chat template changes the text of its {% generation %} blocks, so the targets cannot "
                          "be derived exactly. Use --targets all, or another template")
        spans, at = [], 0
        for piece in re.split(f"({begin}|{end})", marked):
            if piece == begin:
                spans.append([at])
            elif piece == end:
                spans[-1].append(at)
            else:
                at += len(piece)
        return spans

    def prefix_span(self, messages, tools, full, turn):
        """The span of the assistant's turn, if the conversation is written as it grows."""
        before = self.render(messages[:turn], tools, prompt=True)
        after = full if turn + 1 == len(messages) else self.render(messages[:turn + 1], tools)
        if not (after.startswith(before) and full.startswith(after)):
            is_last = not any(message["role"] == "assistant" for message in messages[turn + 1:])
            raise Refused(f"the chat template writes the beginning of the conversation differently once it goes on "
                          f"{'with' if is_last else 'after'} message {turn + 1}, so the targets cannot be derived "
                          f"exactly. Use --targets {'all' if is_last else 'last'}, or a template with "
                          "{% generation %} blocks")
        end = len(after) - len(self.trailing) if after.endswith(self.trailing) else len(after)
        return [len(before), max(end, len(before))]

    def spans(self, messages, tools, targets):
        full = self.render(messages, tools)
        if targets == "all":
            return full, [[0, len(full)]]
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        if not turns:
            raise Refused("the conversation has no turn of the assistant, so it has no target. Leave it out, or use "
                          "--targets all")
        if not self.has_blocks:
            chosen = turns[-1:] if targets == "last" else turns
            return full, [self.prefix_span(messages, tools, full, turn) for turn in chosen]
        spans = self.block_spans(messages, tools, full)
        if targets == "last":
            if len(spans) != len(turns):
                raise Refused(f"the chat template has {len(spans)} {{% generation %}} blocks for {len(turns)} turns of "
                              "the assistant, so the last one is not known. Use --targets assistant")
            spans = spans[-1:]
        return full, spans


def check_content(message, number):
    content = message.get("content")
    if message["role"] == "assistant" and message.get("tool_calls"):
        message.setdefault("content", "")
        content = content or ""
    if not isinstance(content, str):
        raise Refused(f"message {number} ({message['role']}) has no \"content\" that is a string")
    if message["role"] == "assistant" and not content.strip() and not message.get("tool_calls"):
        raise Refused(f"message {number} is an empty turn of the assistant, which would teach it to say nothing. Fill "
                      "it or leave the conversation out")


# The roles that may follow a role; "" is the beginning.
NEXT = {"": ("system", "user"), "system": ("user",), "user": ("assistant",), "assistant": ("user", "tool"),
        "tool": ("assistant", "tool")}


def check_messages(messages):
    if not isinstance(messages, list) or not messages:
        raise Refused("\"messages\" is not a list of messages")
    previous = ""
    for number, message in enumerate(messages, 1):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or not role or role not in NEXT:
            raise Refused(f"message {number} has the role {json.dumps(role)}: roles are system, user, assistant and "
                          "tool")
        if role not in NEXT[previous]:
            place = f"follows {previous}" if previous else "comes first"
            raise Refused(f"message {number} has the role {role}, which {place}: expected {' or '.join(NEXT[previous])}")
        check_content(message, number)
        previous = role


def messages_of(record):
    """The messages of a record, or None for one with a finished text."""
    if not isinstance(record, dict):
        raise Refused("the line is not a JSON object")
    forms = [key for key in ("messages", "prompt", "text") if key in record]
    if len(forms) != 1:
        raise Refused(f"a record has \"messages\", \"prompt\" and \"response\", or \"text\", and this one has "
                      f"{', '.join(sorted(record)[:8]) or 'nothing'}")
    if forms == ["text"]:
        if not isinstance(record["text"], str) or not record["text"]:
            raise Refused("\"text\" is not a string with text")
        return None
    if forms == ["messages"]:
        messages = record["messages"]
    else:
        messages = [{"role": "user", "content": record["prompt"]},
                    {"role": "assistant", "content": record.get("response")}]
    check_messages(messages)
    return messages


def lines_of(path):
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
            if line.strip():
                yield number, line


def render_line(template, line, targets):
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused(f"the line is not UTF-8: {error}") from error
    except ValueError as error:
        raise Refused(f"the line is not JSON: {error}") from error
    messages = messages_of(record)
    if messages is None:
        text, spans = record["text"], [[0, len(record["text"])]]
    else:
        text, spans = template.spans(messages, record.get("tools"), targets)
    try:
        spans = [[len(text[:at].encode("utf-8")) for at in span] for span in spans]
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(f"the text has half of a surrogate pair, which is no character: {error}") from error
    return {"text": text, "spans": spans}


def write(value):
    print(json.dumps(value), flush=False)


def main():
    request = json.load(sys.stdin.buffer)
    try:
        template = Template(Folder(request))
        write(template.header())
        for path in request.get("files", []):
            for number, line in lines_of(path):
                where = f"{path}:{number}"
                try:
                    write({"where": where, **render_line(template, line, request["targets"])})
                except Refused as error:
                    raise Refused(f"{where}: {error}") from error
        for number, messages in enumerate(request.get("chats", []), 1):
            write({"where": f"prompt {number}", "text": template.render(messages, prompt=True), "spans": []})
    except (Refused, OSError) as error:
        write({"error": str(error)})


if __name__ == "__main__":
    main()
