"""The tools that conversations declare. A kind of tool knows names, descriptions and parameters that differ from declaration to
declaration, so that the model reads them instead of knowing them, and how it is asked for."""
from dataclasses import dataclass
from schemas import *

ZONES = "UTC CET EST PST JST GMT IST Europe/Paris Europe/Berlin Asia/Tokyo America/New_York Asia/Shanghai".split()
SKY = "sunny cloudy rainy windy snowy foggy clear".split()
TOPICS = WORDS[:60] + ["kimi k3", "linear attention", "best pizza", "news today", "cheap flights", "python lists", "moon phases", "train times"]
ROOMS = "kitchen,bedroom,office,garden,bathroom,hall".split(",")
LANGUAGES = ["French", "German", "Spanish", "Italian", "Chinese"]
PATHS = "notes.txt README.md src/main.py src/app.js data/users.csv config.json tests/test_api.py /etc/hosts docs/index.md main.cpp".split()
DIRS = "src tests docs data . /tmp /var/log home".split()
COMMANDS = ["ls -la", "git status", "pwd", "make test", "python3 main.py", "npm test", "cat notes.txt", "git log", "cargo build"]
PLANS = "Lunch Meeting Party Call Training Dinner Review Standup".split()
ABSENT = object()                                # an optional parameter that the user did not speak of


@dataclass
class Ask:
    """What a user wants of a tool: the words, a value for each parameter, the tool's result and the answer made of it."""
    text: str
    values: list
    result: str
    answer: str


def weather(R):
    c, t, sky, f = R.choice(CITIES), R.randint(-9, 38), R.choice(SKY), R.choice(["", "", " in celsius", " in fahrenheit"])
    u = R.choice(["What is the weather in {}", "How is the weather in {}", "Weather in {}", "Tell me the weather in {}"]).format(c) + f + R.choice(["?", "."])
    s = "°F" if "fahrenheit" in f else "°C"
    r = R.choice([f"{t}{s}, {sky}", json.dumps({"sky": sky, "temp": t}, separators=(",", ":"))])
    return Ask(u, [c, f[4:] or ABSENT], r, f"In {c} it is {sky} with {t} {s}.")


def total(R):
    a, b = R.randint(0, R.choice([99, 9999])), R.randint(0, R.choice([99, 9999]))
    return Ask(R.choice(["What is {} + {}?", "Add {} and {}.", "Compute {}+{}.", "Use the tool: add {} and {}.", "{} plus {}?"]).format(a, b), [a, b], str(a + b), f"{a} + {b} = {a + b}.")


def clock(R):
    z = R.choice(ZONES); t = f"{R.randint(0, 23):02d}:{R.randint(0, 59):02d}"
    return Ask(R.choice(["What time is it in {}?", "Time in {}?", "Tell me the time in {}."]).format(z), [z], t, f"It is {t} in {z}.")


def search(R):
    q = " ".join(R.sample(TOPICS, R.choice([1, 1, 2])) + ([invented(R)] if R.random() < .3 else [])); n, k = R.randint(2, 99), R.choice([ABSENT, ABSENT, R.randint(1, 20)])
    u = R.choice(["Search for {}", "Search the web for {}", "Look up {}", "Find information about {}"]).format(q) + ("." if k is ABSENT else f", at most {k} results.")
    return Ask(u, [q, k], f"{n} results", f"I searched for {q} and found {n} results.")


def email(R):
    n, s, b = R.choice(NAMES), R.choice(PLANS), R.choice([ABSENT, f"{R.choice(PLANS)} on {R.choice(DAYS)}"]); to = mail(n)
    u = R.choice(["Send an email to {} with the subject {}", "Write a mail to {}, subject {}", "Email {} about {}"]).format(to, s) + ("." if b is ABSENT else f" and the text {b}.")
    return Ask(u, [to, s, b], R.choice(["sent", "ok"]), f"The email to {to} is sent.")


def timer(R):
    n = R.randint(1, 90); w = R.choice([ABSENT, R.choice(FRUIT + ["tea", "rice", "bread"])])
    return Ask(R.choice(["Set a timer for {} minutes", "Start a timer of {} minutes", "Wake me in {} minutes"]).format(n) + ("." if w is ABSENT else f" for {w}."), [n, w], "ok", f"The timer is set for {n} minutes.")


def translate(R):
    w, l, x = " ".join(R.choice(WORDS) for _ in range(R.randint(1, 3))), R.choice(LANGUAGES), invented(R)
    return Ask(R.choice(["Translate {} to {}.", "Translate \"{}\" into {}.", "How do you say {} in {}?"]).format(w, l), [w, l], x, f"In {l}: {x}.")


def convert(R):
    a, (f, t), r = R.choice([decimal(R), R.randint(1, 999)]), R.sample("EUR USD GBP JPY CHF CNY".split(), 2), decimal(R, 999)
    return Ask(R.choice(["Convert {} {} to {}.", "How much is {} {} in {}?", "{} {} in {}?"]).format(a, f, t), [a, f, t], str(r), f"{a} {f} are {r} {t}.")


def stock(R):
    s = "".join(R.choice("ABCDEFGHIKLMNOPRSTVX") for _ in range(R.randint(2, 4))); p = decimal(R, 400)
    return Ask(R.choice(["What is the price of {} stock?", "Stock price of {}?", "How is the stock {} today?"]).format(s), [s], str(p), f"{s} is at {p}.")


def event(R):
    p, who, d = R.choice(PLANS), some(R, NAMES, 1, 3), R.choice(DAYS)
    return Ask(R.choice(["Create the event {} on {} with {}.", "Plan a {} on {} with {}.", "Add {} on {} with {} to my calendar."]).format(p, d, listed(who)), [p, d, who], "created", f"{p} on {d} is planned.")


def light(R):
    r, on = R.choice(ROOMS), R.random() < .5
    return Ask(R.choice(["Turn {1} the light in the {0}.", "Switch {1} the {0} light.", "Light {1} in the {0}, please."]).format(r, "on" if on else "off"), [r, on], R.choice(["ok", "done"]), f"The light in the {r} is {'on' if on else 'off'}.")


def read(R):
    p, w = R.choice(PATHS), " ".join(word(R) for _ in range(R.randint(2, 4)))
    return Ask(R.choice(["Read the file {}.", "Show me {}.", "What is in {}?", "Open {}."]).format(p), [p], w, f"{p} contains: {w}")


def listing_of(R):
    d, w = R.choice(DIRS), some(R, PATHS[:8], 1, 3)
    return Ask(R.choice(["List the files in {}.", "Which files are in {}?", "Show the folder {}."]).format(d), [d], "\n".join(w), f"{d} has {', '.join(w)}.")


def write(R):
    p, w = R.choice(PATHS), " ".join(word(R) for _ in range(R.randint(1, 3)))
    return Ask(R.choice(["Write {} to {}.", "Save {} in the file {}.", "Put the text {} into {}."]).format(w, p), [p, w], R.choice(["ok", "written"]), f"I wrote {p}.")


def command(R):
    c, w = R.choice(COMMANDS), " ".join(word(R) for _ in range(R.randint(1, 3)))
    return Ask(R.choice(["Run {}.", "Run the command {}.", "Execute {}."]).format(c), [c], w, f"The output of {c}: {w}")


def items(R):
    x = some(R, FRUIT + ["milk", "rice", "tea", "bread", "salt"], 1, 4)
    return Ask(R.choice(["Add {} to my shopping list.", "I need {}. Put it on the list.", "Buy {}."]).format(listed(x)), [x], "ok", f"{len(x)} items are on the list.")


def contact(R):
    n, a, c = R.choice(NAMES), R.randint(1, 99), R.choice(CITIES)
    return Ask(R.choice(["Add the contact {}, {} years old, from {}.", "Save {} ({}) from {}.", "New contact: {}, {}, {}."]).format(n, a, c), [{"name": n, "age": a, "city": c}], "saved", f"{n} is saved.")


def remind(R):
    w, d = R.choice(["call", "visit", "pay", "thank"]) + " " + R.choice(NAMES), R.choice([None, R.choice(DAYS)])
    return Ask(R.choice(["Remind me to {}", "Set a reminder to {}"]).format(w) + (f" on {d}." if d else "."), [w, d], "ok", f"I will remind you to {w}.")


def user(R):
    i, n = R.randint(1, 999), R.choice(NAMES)
    return Ask(R.choice(["Who is user {}?", "Find user {}.", "Get the user {}.", "Name of user {}?"]).format(i), [i], json.dumps({"name": n}, separators=(",", ":")), f"User {i} is {n}.")


CONTACT = obj([("name", STRING, ""), ("age", INTEGER, 0), ("city", STRING, "")])
UNIT, LANGUAGE = {**STRING, "enum": ["celsius", "fahrenheit"]}, {**STRING, "enum": LANGUAGES}
KINDS = [  # names, descriptions, parameters as (keys, schema, required), what is asked
    ("get_weather weather fetch_weather current_weather", ["Get the weather for a city", "Current weather of a city"], [("city location place", STRING, True), ("unit units", UNIT, False)], weather),
    ("add sum add_numbers plus", ["Add two numbers", "Add two integers"], [("a x first", INTEGER, True), ("b y second", INTEGER, True)], total),
    ("get_time clock current_time time_in", ["Get the time in a timezone", "Current time of a timezone"], [("timezone zone tz", STRING, True)], clock),
    ("search web_search search_web find", ["Search the web", "Search for a query"], [("query q text", STRING, True), ("limit max_results", INTEGER, False)], search),
    ("send_email email send_mail", ["Send an email"], [("to recipient", STRING, True), ("subject title", STRING, True), ("body text", STRING, False)], email),
    ("set_timer timer start_timer", ["Start a timer", "Set a timer in minutes"], [("minutes duration", INTEGER, True), ("label name", STRING, False)], timer),
    ("translate translate_text", ["Translate a text"], [("text words", STRING, True), ("language target", LANGUAGE, True)], translate),
    ("convert_currency convert exchange", ["Convert an amount of money"], [("amount value", NUMBER, True), ("from source", STRING, True), ("to target", STRING, True)], convert),
    ("get_stock_price stock quote", ["Price of a stock"], [("symbol ticker", STRING, True)], stock),
    ("create_event add_event plan_event", ["Create an event in the calendar"], [("title name", STRING, True), ("day date", STRING, True), ("attendees guests", array(STRING), True)], event),
    ("set_light light switch_light", ["Switch a light"], [("room place", STRING, True), ("on state enabled", BOOLEAN, True)], light),
    ("read_file read Read open_file", ["Read a file", "Reads a file from the disk"], [("path file_path file", STRING, True)], read),
    ("list_files ls LS list_directory", ["List the files of a folder"], [("directory path folder", STRING, True)], listing_of),
    ("write_file write Write save_file", ["Write a file"], [("path file_path file", STRING, True), ("content text", STRING, True)], write),
    ("run_command bash Bash shell", ["Run a shell command"], [("command cmd", STRING, True)], command),
    ("add_items shopping_list add_to_list", ["Add items to the shopping list"], [("items things", array(STRING), True)], items),
    ("add_contact save_contact create_contact", ["Save a contact"], [("contact person", CONTACT, True)], contact),
    ("remind set_reminder add_reminder", ["Set a reminder"], [("text task", STRING, True), ("day due", {"type": ["string", "null"]}, True)], remind),
    ("get_user find_user user", ["Find a user by id"], [("id user_id", INTEGER, True)], user)]


class Tool:
    """A declaration drawn for one conversation."""

    def __init__(self, R, kind, taken=()):
        names, about, parameters, self.asks = kind
        self.name = R.choice(names.split()) if R.random() < .75 else "_".join(invented(R) for _ in range(R.choice([1, 2])))
        if self.name in taken: self.name += "_2"
        optional = R.random() < .5               # declared at all?
        self.keys = [(R.choice(k.split()) if R.random() < .93 else invented(R), s, r) if r or optional else None for k, s, r in parameters]
        self.about = R.choice(about); self.style = R.random()

    def schema(self):
        fields = [k for k in self.keys if k]; s = obj(fields, [k for k, _, r in fields if r])
        if self.style < .15: s["additionalProperties"] = False
        if .1 < self.style < .25: s["properties"] = {k: {"description": f"the {k}", **v} for k, v in s["properties"].items()}
        return s

    def declaration(self):
        f = {"name": self.name, "description": self.about, "parameters": self.schema()}
        if self.style < .08: f["strict"] = True
        return {"type": "function", "function": f}

    def ask(self, R):
        """-> (Ask, call); asked for again where the words name a parameter that is not declared."""
        while True:
            a = self.asks(R)
            if all(k or v is ABSENT for k, v in zip(self.keys, a.values)): break
        values = {k[0]: v for k, v in zip(self.keys, a.values) if k and v is not ABSENT}
        if R.random() < .08 and all(not isinstance(v, dict) for v in values.values()): a.text = spelled(R, self.name, values)
        return a, {"type": "function", "function": {"name": self.name, "arguments": json.dumps(values, ensure_ascii=False)}}


def plain(v): return ", ".join(map(str, v)) if isinstance(v, list) else json.dumps(v) if not isinstance(v, str) else v


def spelled(R, name, values):
    """A wish that names the tool and its parameters themselves."""
    f, sep = R.choice([("Use {} with {}.", " and "), ("Call {} with {}.", ", "), ("Please call {}: {}", "; "), ("{}({})", ", ")])
    p = R.choice(["{}={}", "{} = {}"]) if "(" in f else R.choice(["{} {}", "{}: {}", "{} = {}"])
    return f.format(name, sep.join(p.format(k, plain(v)) for k, v in values.items()))


class Invented(Tool):
    """A tool of no known kind: whatever the model knows of it stands in the declaration and in the wish."""

    def __init__(self, R, taken=()):
        self.name = R.choice([invented(R), "_".join([R.choice("get set make find do check".split()), invented(R)]), f"{R.choice(WORDS)}_{R.choice(WORDS)}"])
        fields = {key_name(R): value(R) for _ in range(R.choice([0, 1, 1, 2, 2, 3]))}
        self.keys = [(k, s, True) for k, (s, _, _) in fields.items()]; self.style = R.random()
        self.about = f"Does the {R.choice(['thing', invented(R)])}" if R.random() < .7 else "A tool"

    def ask(self, R):
        values = {}
        for k, s, _ in self.keys:
            while (v := value(R))[0] != s and not ("enum" in s): pass
            values[k] = R.choice(s["enum"]) if "enum" in s else v[1]
        text = spelled(R, self.name, values) if values else R.choice(["Use {}.", "Call {}.", "Run {}, please."]).format(self.name); r = f"{word(R)} {R.randint(0, 99)}"
        return Ask(text, [], r, f"The result is {r}."), {"type": "function", "function": {"name": self.name, "arguments": json.dumps(values, ensure_ascii=False)}}


def draw(R, n):
    """`n` tools of different kinds and names."""
    out = []
    for kind in R.sample(KINDS, n):
        taken = {t.name for t in out}; t = Invented(R) if R.random() < .18 else Tool(R, kind, taken)
        if t.name not in taken: out.append(t)
    return out
