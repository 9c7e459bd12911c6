"""How a conversation opens: thinking or not, the effort, a system prompt; and how turns that call tools are told."""
import json
from turns import *

SYS = ["You are a helpful assistant.", "You are K3 Mini.", "Answer briefly.", "You are a helpful assistant. Be concise.", "Be kind and short."]
RULES = """Use the available tools to help the user.|Read a file before you change it.|Never guess the content of a file.|Keep your answers short and to the point.|Do not ask for what you can find out.
If a tool fails, say what it said.|Several independent calls may be made in one turn.|Answer without a tool when no tool is needed.|Paths are relative to the working directory.|The working directory is the project.
Do not run commands that delete data.|Explain what you changed after a change.|Use the language of the user.|Do not add comments that nobody asked for.|Prefer small steps.|The platform is linux.|The shell is bash.
Copy names and numbers exactly as they were given.|Fill in every required parameter.|Leave out optional parameters that the user did not mention.|Do not make up results.|Stop when the task is done.
Follow the style of the code around you.|Run the tests after a change.|Today is Monday.|The user may be wrong; be polite about it.|Never show secrets.|Answer in plain text.""".replace("\n", "|").split("|")


def long_system(R):
    """A system prompt of 100 to 300 tokens, as agents send one."""
    rules = R.sample(RULES, R.randint(8, 18)); name = R.choice(["a coding agent", "an assistant with tools", "an agent that works in a terminal", "a careful assistant"])
    if R.random() < .5: return f"You are {name}.\n\n# Rules\n" + "\n".join("- " + r for r in rules)
    return f"You are {name}. " + " ".join(rules)


PATHS = "/srv/site /opt/demo /data/code /var/app /mnt/tool /srv/git/app".split()
def environment(R):
    """What some agents say of themselves and their machine in a system message after the user's: nothing that was asked."""
    facts = [f"Primary working directory: {R.choice(PATHS)}", f"Is a git repository: {R.choice(['true', 'false'])}", f"Platform: {R.choice(['linux', 'darwin'])}", f"Shell: {R.choice(['bash', 'zsh'])}",
             f"OS Version: Linux {R.randint(5, 6)}.{R.randint(0, 19)}.{R.randint(0, 60)}"] + R.sample(RULES, R.randint(0, 5))
    R.shuffle(facts)
    return R.choice(["# Environment\nYou have been invoked in the following environment: \n", "<env>\n", "# Context\n"]) + "\n".join(" - " + f for f in facts) + \
        f"\n\nYou are powered by the model {R.choice(['kimi-k3', 'k3', 'K3 Mini', 'bundled'])}.\n\nToday's date is 20{R.randint(25, 29)}-{R.randint(1, 12):02d}-{R.randint(1, 28):02d}."


def base_req(R, long=.02):
    """A request without messages but its system prompt. `long`: how often that is an agent's. Without "effort" the server says max."""
    req = {"messages": []}
    if R.random() < .22: req["thinking"] = False
    elif (effort := R.choices(["low", "high", "max", "none"], [27, 27, 38, 8])[0]) != "max": req["effort"] = None if effort == "none" else effort
    q = R.random()
    if q < long: req["messages"].append({"role": "system", "content": long_system(R)})
    elif q < long + .23: req["messages"].append({"role": "system", "content": R.choice(SYS)})
    return req


def required(tools, name):
    """Names of the parameters that the declared tool wants."""
    return next(t["function"]["parameters"]["required"] for t in tools if t["function"]["name"] == name)


def calling(calls, req):
    """The assistant's message that makes `calls`; its reasoning says which, with what, and as a check what the tools need."""
    name = lambda c: c["function"]["name"]; many = len(calls) > 1
    low = "I call " + ", ".join(map(name, calls)) + "."
    plan = "I call " + ", ".join(f"{name(c)}({', '.join(json.loads(c['function']['arguments']))})" for c in calls) + "."
    needs = "; ".join(f"{n} needs {', '.join(required(req['tools'], n)) or 'nothing'}" for n in dict.fromkeys(map(name, calls)))
    t = turn("", plan, "", low=low, check=(f"{len(calls)} calls; " if many else "") + needs + ".")
    return {**msg(t, req), "tool_calls": [{**c, "id": f"{name(c)}_{i}"} for i, c in enumerate(calls)]}


def results(message, texts):
    """The tools' messages that answer a message's calls."""
    return [{"role": "tool", "tool_call_id": c["id"], "content": t} for c, t in zip(message["tool_calls"], texts)]


def reporting(texts, answer, req, failed=0):
    """The answer made of results."""
    check = f"{len(texts)} result{'s' if len(texts) > 1 else ''}, {failed or 'no'} error{'s' if failed > 1 else ''}."
    return msg(turn("", f"The tool says: {'; '.join(texts)}.", answer, low="I answer.", check=check), req)
