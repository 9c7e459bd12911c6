"""Answers bound to a JSON schema. A record is a text and the fields it holds: (key, schema, value). Keys are declared in an order
that `required` shows too, since the prompt sorts the properties; the grammar keeps the declared order."""
import json
from turns import *

STRING, INTEGER, NUMBER, BOOLEAN = ({"type": t} for t in ("string", "integer", "number", "boolean"))
JOBS = "cook teacher doctor farmer painter driver writer singer".split()
THINGS = "lamp table chair clock phone piano drum bike car boat pen book door window".split()
STREETS = "Oak Street,Main Street,Park Road,Hill Road,Lake Street,Mill Lane,Rose Lane,King Street".split(",")
SIZES = ["S", "M", "L", "XL"]
GOOD = "I love this {}.|The {} is great.|What a nice {}!|This {} works well.|I am happy with the {}.".split("|")
BAD = "I hate this {}.|The {} is broken.|What a bad {}!|This {} does not work.|I am angry about the {}.".split("|")


def array(of): return {"type": "array", "items": of}
def nullable(R, of): return R.choice([{"anyOf": [of, {"type": "null"}]}, {"type": [of["type"], "null"]}])
def decimal(R, top=99): return round(R.randint(0, top) + R.choice([.5, .25, .75, .1, .2, .9]), 2)
def mail(name): return f"{name.lower()}@example.com"
def some(R, pool, low=1, high=4): return R.sample(pool, R.randint(low, high))


def obj(fields, keep=None):
    """The schema of an object: all fields required but those whose key is not in `keep`."""
    names = [k for k, _, _ in fields]
    return {"type": "object", "properties": {k: s for k, s, _ in fields}, "required": [k for k in names if keep is None or k in keep]}


def person(R):
    """What is said of a person: each entry is (keys, schema, value, words)."""
    job, color, street, city, n = R.choice(JOBS), R.choice(COLORS), R.choice(STREETS), R.choice(CITIES), R.randint(1, 99)
    likes, scores, married, address = some(R, FRUIT), [R.randint(0, 20) for _ in range(R.randint(1, 4))], R.random() < .5, R.random() < .6
    place = [("street", STRING, street), ("number", INTEGER, n), ("city", STRING, city)]
    pets = R.sample(ANIMALS, 3); name = R.choice(NAMES)
    return name, [
        (["age", "years"], INTEGER, n + 1, f"is {n + 1} years old"),
        (["city", "town", "home"], STRING, city, f"lives in {city}"),
        (["color", "favorite_color"], {**STRING, "enum": sorted({color, *R.sample(COLORS, 3)})} if R.random() < .4 else STRING, color, f"likes {color}"),
        (["pet", "animal"], {**STRING, "enum": pets} if R.random() < .4 else STRING, pets[n % 3], f"has a {pets[n % 3]}"),
        (["height", "height_m"], NUMBER, (h := R.randint(11, 29) / 10), f"is {h} m tall"),
        (["married", "is_married"], BOOLEAN, married, "is married" if married else "is not married"),
        (["fruits", "buys", "shopping"], array(STRING), likes, f"buys {listed(likes)}"),
        (["scores", "points"], array(INTEGER), scores, f"scored {listed(list(map(str, scores)))}"),
        (["job", "profession"], {**STRING, "enum": sorted({job, *R.sample(JOBS, 3)})} if R.random() < .5 else STRING, job, f"is a {job}"),
        (["email", "mail"], nullable(R, STRING), mail(name) if address else None, f"has the email {mail(name)}" if address else "has no email"),
        (["address", "home_address"], obj(place), {k: v for k, _, v in place}, f"lives at {n} {street} in {city}")]


def product(R):
    thing, stock, weight = R.choice(THINGS), R.random() < .5, R.random() < .6
    sizes, price, count = some(R, SIZES, 1, 3), R.choice([decimal(R), R.randint(1, 999)]), R.randint(1, 500)
    color, made = R.choice(COLORS), R.choice(CAP)[0]
    return thing, [
        (["price", "cost", "price_eur"], NUMBER, price, f"costs {price} euros"), (["color", "colour"], STRING, color, f"is {color}"),
        (["in_stock", "available"], BOOLEAN, stock, "is in stock" if stock else "is sold out"),
        (["sizes"], array({**STRING, "enum": SIZES} if R.random() < .5 else STRING), sizes, f"comes in {listed(sizes)}"),
        (["weight", "weight_kg"], nullable(R, NUMBER), (w := decimal(R, 9)) if weight else None, f"weighs {w} kg" if weight else "has no known weight"),
        (["count", "quantity", "amount"], INTEGER, count, f"is ordered {count} times"), (["country", "made_in"], STRING, made, f"is made in {made}")]


def described(R, kind):
    """A sentence about a person or a thing, with one to six fields of it."""
    name, entries = kind(R); first = kind is product
    entries = [e for e in entries if R.random() < .95]; picked = R.sample(entries, min(len(entries), R.choice([1, 1, 2, 2, 3, 3, 4, 5])))
    if any(e[0][0] == "address" for e in picked): picked = [e for e in picked if e[0][0] not in ("city", "age")]
    words = [e[3] for e in picked]; fields = [(R.choice(k), s, v) for k, s, v, _ in picked]
    key = R.choice(["item", "product", "name"] if first else ["name", "name", "person", "first_name"])
    if R.random() < .85 or not fields: fields.insert(0, (key, STRING, name))
    return f"{'The ' if first else ''}{name} {listed(words)}.", fields


def value(R):
    """Any value: (schema, value, words)."""
    k = R.randrange(7)
    if k == 0: v = R.randint(-99, 9999); return INTEGER, v, str(v)
    if k == 1: v = decimal(R); return NUMBER, v, str(v)
    if k == 2: v = R.random() < .5; return BOOLEAN, v, R.choice([["false", "true"], ["no", "yes"], ["off", "on"]])[v]
    if k == 3: v = [word(R) for _ in range(R.randint(1, 4))]; return array(STRING), v, ", ".join(v)
    if k == 4: return nullable(R, STRING), None, R.choice(["null", "none", "unknown"])
    if k == 5: o = R.sample(WORDS, 3); v = R.choice(o); return {**STRING, "enum": o}, v, v
    v = " ".join(word(R) for _ in range(R.choice([1, 1, 2]))); return STRING, v, v


def key_name(R): return R.choice(WORDS + ["id", "title", "status", "level", "code", "total", "kind", "note"]) if R.random() < .6 else invented(R)


def pairs(R):
    """Keys and values as they stand: what makes the model copy names it has never seen."""
    fields, lines = [], []
    for k in dict.fromkeys(key_name(R) for _ in range(R.choice([1, 2, 3, 3, 4, 6]))):
        s, v, w = value(R); fields.append((k, s, v)); lines.append((k, w))
    f = R.choice(["{}: {}", "{} = {}", "{} is {}", "The {} is {}."]); sep = " " if f[-1] == "." else R.choice(["; ", "\n"])
    return sep.join(f.format(k, w) for k, w in lines), fields


def known(R):
    """What the model knows or works out itself."""
    k = R.randrange(5)
    if k == 0: c, t, _ = R.choice(CAP); return R.choice(CAPQ).format(c), [("country", STRING, c), (R.choice(["capital", "city"]), STRING, t)][R.choice([0, 1]):]
    if k == 1: a, b = R.randint(0, 49), R.randint(0, 49); return f"What is {a} + {b}?", [(R.choice(["result", "sum", "answer"]), INTEGER, a + b)]
    if k == 2: n = R.randint(0, 200); return R.choice(["Is {} even?", "Is the number {} even?"]).format(n), [("number", INTEGER, n), (R.choice(["even", "is_even"]), BOOLEAN, n % 2 == 0)][R.choice([0, 1]):]
    good = R.random() < .5; t = R.choice(THINGS); o = ["positive", "negative"] if R.random() < .5 else ["negative", "positive"]
    if k == 3: return R.choice(GOOD if good else BAD).format(t), [("sentiment", {**STRING, "enum": o}, "positive" if good else "negative")] + ([("item", STRING, t)] if R.random() < .5 else [])
    people = R.sample(NAMES, R.randint(1, 3)); ages = [R.randint(1, 99) for _ in people]; one_ = [("name", STRING, ""), ("age", INTEGER, 0)]
    return listed([f"{p} is {a}" for p, a in zip(people, ages)]) + ".", [(R.choice(["people", "persons"]), array(obj(one_)), [{"name": p, "age": a} for p, a in zip(people, ages)])]


def record(R):
    k = R.random()
    text, fields = described(R, person) if k < .4 else described(R, product) if k < .55 else pairs(R) if k < .82 else known(R)
    if R.random() < .4: R.shuffle(fields)
    elif R.random() < .4: fields.sort(key=lambda f: f[0])
    return text, fields


def schema(R, fields):
    """The declaration, with what libraries add to one: titles, additionalProperties, an optional member that the text does not name."""
    s = obj(fields); p = s["properties"]; style = R.random()
    if R.random() < .12: p[key_name(R) + "_2"] = R.choice([STRING, INTEGER])                  # optional, never given
    if style < .5: s["additionalProperties"] = False
    elif style < .65: s["title"] = R.choice(["Person", "Record", "Item", "Answer"]); s["properties"] = {k: {"title": k.replace("_", " ").title(), **v} for k, v in p.items()}
    elif style < .72: s["properties"] = {k: {"description": f"the {k.replace('_', ' ')}", **v} for k, v in p.items()}
    elif style < .77: s["$schema"] = "http://json-schema.org/draft-07/schema#"
    return s


def kind_of(s):
    """The types of a schema in words."""
    if "anyOf" in s: return " or ".join(kind_of(x) for x in s["anyOf"])
    if isinstance(s["type"], list): return " or ".join(s["type"])
    return "enum" if "enum" in s else s["type"]


def bound_thought(fields, text, answer):
    """The turn of an answer in JSON: its keys, and as a check their types."""
    keys = ", ".join(k for k, _, _ in fields)
    return turn(text, f"The answer must be JSON with {keys}.", answer, low="I write JSON.", check=", ".join(f"{k} {kind_of(s)}" for k, s, _ in fields) + ".")


ASKS = ["Extract the data: {}", "Give me this as JSON: {}", "Convert to JSON: {}", "{}", "Parse: {}", "Fill in the form: {}", "Extract the fields.\n\n{}"]


def schema_task(R, split="train", base=None):
    """base(R): the request a turn starts from."""
    while True:
        text, fields = record(R); u = R.choice(ASKS).format(text)
        if heldout(u) == (split == "eval"): break
    req = base(R); answer = json.dumps({k: v for k, _, v in fields}, ensure_ascii=False)
    if R.random() < .15: t = one(R, "train", R.choice([capital, faq, words, listing])); req["messages"] += [{"role": "user", "content": t["u"]}, msg(t, req)]
    req["messages"].append({"role": "user", "content": u})
    req["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema(R, fields)}}
    return req, msg(bound_thought(fields, u, answer), req)
