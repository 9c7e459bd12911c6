"""Four tools that are always declared alike: calls, answers, and turns in which none may, must or can be called."""
import json
from chat import dumps
from opening import *
from pool import SKY, TOPICS, ZONES


def tool(name, desc, **props): return {"type": "function", "function": {"name": name, "description": desc, "parameters": {"type": "object", "properties": {k: {"type": t} for k, t in props.items()}, "required": list(props)}}}
TOOLS = {"get_weather": (["Get the weather for a city", "Current weather of a city"], {"city": "string"}), "add": (["Add two numbers", "Add two integers"], {"a": "integer", "b": "integer"}),
         "get_time": (["Get the time in a timezone", "Current time of a timezone"], {"timezone": "string"}), "search": (["Search the web", "Search for a query"], {"query": "string"})}


def call(name, **a): return {"id": "", "type": "function", "function": {"name": name, "arguments": json.dumps(a)}}


def tool_ask(R, name):
    """(user text, calls, tool results, answer)"""
    if name == "get_weather":
        cs = R.sample(CITIES, 2 if R.random() < .25 else 1); t = [R.randint(-9, 38) for _ in cs]; s = [R.choice(SKY) for _ in cs]
        u = R.choice(["What is the weather in {}?", "How is the weather in {}?", "Weather in {}?", "Tell me the weather in {}.", "What's the weather like in {} today?", "Check the weather in {}."]).format(" and ".join(cs))
        f = R.random() < .5
        return u, [call(name, city=c) for c in cs], [dumps({"sky": y, "temp": x}) if f else f"{x}°C, {y}" for x, y in zip(t, s)], " ".join(f"In {c} it is {y} with {x} °C." for c, x, y in zip(cs, t, s))
    if name == "add":
        a, b = R.randint(0, 9999), R.randint(0, 9999)
        if R.random() < .4: a, b = a % 100, b % 100
        return R.choice(["What is {} + {}?", "Add {} and {}.", "Compute {}+{}.", "Use the tool to add {} and {}.", "{} plus {}?"]).format(a, b), [call(name, a=a, b=b)], [str(a + b)], f"{a} + {b} = {a + b}."
    if name == "get_time":
        z = R.choice(ZONES); t = f"{R.randint(0, 23):02d}:{R.randint(0, 59):02d}"
        return R.choice(["What time is it in {}?", "Time in {}?", "Tell me the time in {}.", "What is the current time in {}?", "Current time, {}."]).format(z), [call(name, timezone=z)], [t], f"It is {t} in {z}."
    q = " ".join(R.sample(TOPICS, R.choice([1, 1, 2])) + ([word(R)] if R.random() < .3 else [])); n = R.randint(2, 99)
    return R.choice(["Search for {}.", "Search the web for {}.", "Look up {}.", "Find information about {}.", "Google {}."]).format(q), [call(name, query=q)], [f"{n} results"], f"I searched for {q} and found {n} results."


def tools(R, split="train", kind=None):
    req = base_req(R); m = req["messages"]; names = R.sample(list(TOOLS), R.choice([1, 2, 2, 3, 3, 4]))
    req["tools"] = [tool(n, R.choice(TOOLS[n][0]), **TOOLS[n][1]) for n in names]
    kind = kind or R.choices(["call", "answer", "chat", "none", "required", "missing"], [5, 4, 1.5, 1, 1, 2.5])[0]
    mk = lambda r, a: msg(turn("", r, a), req)
    if kind == "missing":
        names = names[:3]; req["tools"] = req["tools"][:3]; miss = R.choice([n for n in TOOLS if n not in names and n != "add"] or ["x"])
        if miss == "x": return tools(R, split, kind)
        u, c, _, _ = tool_ask(R, miss); m.append({"role": "user", "content": u})
        if heldout(u) != (split == "eval"): return tools(R, split, kind)
        return req, mk("No tool fits this request.", "Sorry, I have no tool for that.")
    if kind in ("chat",) or R.random() < .12:
        f = R.choice([capital, faq, words, listing] + ([arith] if "add" not in names else [])); t = one(R, split if kind == "chat" else "train", f); m.append({"role": "user", "content": t["u"]})
        if kind == "chat": return req, msg(t, req)
        m.append(msg(t, req))
    rounds = R.choice([0, 0, 1, 1, 2]) if kind in ("call", "answer") else 0
    while True:
        n = R.choice(names); u, calls, res, ans = tool_ask(R, n); want = split if rounds == 0 else "train"
        if heldout(u) != (want == "eval"): continue
        if rounds == 0: break
        rounds -= 1; a = calling(calls, req)
        m += [{"role": "user", "content": u}, a] + results(a, res) + [reporting(res, ans, req)]
    m.append({"role": "user", "content": u})
    if kind == "none":
        req["tool_choice"] = "none"; return req, mk("Tools are not allowed now.", "I must not call a tool in this turn, so I cannot answer that.")
    if kind == "required": req["tool_choice"] = "required"
    a = calling(calls, req)
    if kind in ("call", "required"): return req, a
    m.append(a); m += results(a, res)
    return req, reporting(res, ans, req)
