"""What an agent asks for: several calls in a turn, any types of arguments, failures, chains, forced and named tools, a long system
prompt, histories with and without their reasoning. `kind` names the last turn: one of KINDS_OF_TURN."""
import json
from opening import *
from pool import draw, decimal
from schemas import record, schema

KINDS_OF_TURN = {"call": 34, "several": 26, "answer": 18, "failed": 6, "chain": 6, "named": 12, "required": 5, "none": 3, "missing": 6, "chat": 4}
FAILURES = ["not found", "permission denied", "timeout", "invalid argument", "no such file", "service unavailable", "unknown id", "rate limit"]
JOINS = ["{} {}", "{} Also: {}", "{} And then: {}", "First: {} Second: {}", "1. {}\n2. {}", "{}\n{}"]


def wishes(R, tools, n):
    """The words, the calls, the results and the answer of `n` wishes in one turn."""
    asks = [R.choice(tools).ask(R) for _ in range(n)]; words = [a.text for a, _ in asks]
    text = words[0] if n == 1 else R.choice(JOINS).format(*words) if n == 2 else "\n".join(f"{i + 1}. {w}" for i, w in enumerate(words)) if R.random() < .5 else " ".join(words)
    return text, [c for _, c in asks], [a.result for a, _ in asks], " ".join(a.answer for a, _ in asks)


def failures(R, calls, texts):
    """Some results replaced by errors: -> results, how many failed, the answer."""
    out = list(texts); bad = R.sample(range(len(calls)), 1 if R.random() < .7 else len(calls))
    for i in bad: out[i] = "Error: " + (w := R.choice(FAILURES)) + (f" ({R.choice(WORDS)})" if R.random() < .3 else "")
    return out, len(bad), " ".join(f"{calls[i]['function']['name']} failed: {out[i][7:]}." for i in sorted(bad))


def chained(R, tools, req, m):
    """Two turns of calls for one wish: the second needs what the first found out."""
    from pool import KINDS, Tool
    one_of = lambda name: Tool(R, next(k for k in KINDS if k[0].split()[0] == name))
    who, sky = one_of("get_user"), one_of("get_weather"); both = [who, sky]; R.shuffle(both)
    req["tools"] = [t.declaration() for t in both]; i, c = R.randint(1, 999), R.choice(CITIES)
    make = lambda t, v: {"type": "function", "function": {"name": t.name, "arguments": json.dumps({t.keys[0][0]: v})}}
    u = R.choice(["What is the weather where user {} lives?", "How is the weather in the city of user {}?", "Find user {} and tell me the weather there."]).format(i)
    first = calling([make(who, i)], req); found = json.dumps({"city": c, "name": R.choice(NAMES)}, separators=(",", ":"))
    second = calling([make(sky, c)], req); k, t = R.choice(["sunny", "cloudy", "rainy"]), R.randint(-9, 38)
    steps = [first, *results(first, [found]), second, *results(second, [f"{t}°C, {k}"]), reporting([f"{t}°C, {k}"], f"In {c} it is {k} with {t} °C.", req)]
    stop = R.choice([0, 2, 2, 4])
    m += [{"role": "user", "content": u}] + steps[:stop]
    return u, steps[stop]


def named(R, req, split):
    """A record taken from a text by a tool made for it: how programs ask for structured answers where they name the tool."""
    while True:
        text, fields = record(R); u = R.choice(["{}", "{}", "Extract the data: {}", "Save this: {}", "Extract the fields.\n\n{}"]).format(text)
        if heldout(u) == (split == "eval"): break
    name = R.choice(["extract", "record", "save_record", "answer", "json", "extract_data", "store", "Person", "output", invented(R)])
    f = {"name": name, "description": R.choice(["Extract the data of a text", "Save a record", "The structured answer", "Record the fields"]), "parameters": schema(R, fields)}
    req["tools"] = [{"type": "function", "function": f}]; others = [t.declaration() for t in draw(R, R.choice([0, 0, 0, 1]))]
    req["tools"] = [t for t in others if t["function"]["name"] != name] + req["tools"]; R.shuffle(req["tools"])
    q = R.random()
    if q < .65: req["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif q < .85: req["tool_choice"] = "required"
    req["messages"].append({"role": "user", "content": u}); values = {k: v for k, _, v in fields}
    return req, calling([{"type": "function", "function": {"name": name, "arguments": json.dumps(values, ensure_ascii=False)}}], req)


def silent(message):
    """A message of the history that came back without its reasoning: nothing to learn from, but to be read."""
    return {k: v for k, v in message.items() if k != "reasoning_content"}


def earlier(R, tools, req, m):
    """A finished round of calls, results and an answer, or a plain turn."""
    if R.random() < .25: t = one(R, "train", R.choice([capital, faq, words, listing])); m += [{"role": "user", "content": t["u"]}, msg(t, req)]; return
    for _ in range(300):
        if not heldout((w := wishes(R, tools, R.choice([1, 1, 2])))[0]): break
    else: return
    u, calls, texts, answer = w; a = calling(calls, req); m += [{"role": "user", "content": u}, a, *results(a, texts), reporting(texts, answer, req)]


def agent(R, split="train", kind=None):
    req = base_req(R, .12); m = req["messages"]; kind = kind or R.choices(list(KINDS_OF_TURN), list(KINDS_OF_TURN.values()))[0]
    if kind == "named": return named(R, req, split)
    if kind == "chain":
        while True:
            start = len(m); u, message = chained(R, None, req, m)
            if heldout(u) == (split == "eval"): return req, message
            del m[start:]
    tools = draw(R, R.choice([1, 1, 2, 2, 2, 3, 3, 4, 5])); absent = tools.pop() if kind == "missing" and len(tools) > 1 else None
    req["tools"] = [t.declaration() for t in tools]
    if kind != "none" and R.random() < .22:
        for _ in range(R.choice([1, 1, 2])): earlier(R, tools, req, m)
        if R.random() < .3: m[:] = [silent(x) for x in m]
    if kind == "chat": t = one(R, split, R.choice([capital, faq, words, listing, copying])); m.append({"role": "user", "content": t["u"]}); return req, msg(t, req)
    many = R.choice([2, 2, 2, 3, 3, 4]) if kind == "several" else R.choice([1, 1, 1, 2, 2, 3]) if kind in ("answer", "failed") else 1
    for _ in range(300):
        if heldout((w := wishes(R, [absent] if absent else tools, many))[0]) == (split == "eval"): break
    else: return agent(R, split, kind)           # few words fit a tool without parameters, perhaps none of them in the slice
    u, calls, texts, answer = w; m.append({"role": "user", "content": u}); plain = lambda r, a: (req, msg(turn("", r, a), req))
    if absent: return plain("No tool fits this request.", "Sorry, I have no tool for that.")
    if kind == "none": req["tool_choice"] = "none"; return plain("Tools are not allowed now.", "I must not call a tool in this turn, so I cannot answer that.")
    if kind == "required": req["tool_choice"] = "required"
    a = calling(calls, req)
    if kind not in ("answer", "failed"): return req, a
    failed = 0
    if kind == "failed": texts, failed, answer = failures(R, calls, texts)
    m += [a, *results(a, texts)]
    return req, reporting(texts, answer, req, failed)
