"""Single-turn tasks and what all conversations are made of. A task draws a turn: a dict of u (user text), r (reasoning), a (answer),
n (answer used when thinking is off), low (the few words thought at low effort) and check (what the greatest effort adds)."""
import random, zlib
from facts import *


def heldout(key): return zlib.crc32(key.encode()) % 16 == 0


def turn(u, r, a, n=None, low=None, check=""): return {"u": u, "r": r, "a": a, "n": n or a, "low": low or r, "check": check}


def thought(t, req):
    """The reasoning at the request's effort: few words, the working, or the working and a check. No effort section: the working."""
    effort = req.get("effort", "max")
    return t["low"] if effort == "low" else t["r"] + (" Check: " + t["check"] if effort == "max" and t["check"] else "")


def msg(t, req):
    if not req.get("thinking", True): return {"role": "assistant", "content": t["n"]}
    return {"role": "assistant", "content": t["a"], "reasoning_content": thought(t, req)}


def one(R, split, fn):
    for _ in range(5000):                       # tasks with very few variants may have an empty held-out slice
        t = fn(R)
        if heldout(t["u"]) == (split == "eval"): return t
    raise ValueError(f"no {split} turn")


def listed(x): return x[0] if len(x) == 1 else ", ".join(x[:-1]) + " and " + x[-1]


def invented(R): return "".join(R.choice("b c d f g k l m n p r s t v z br st tr".split()) + R.choice("a e i o u".split()) + R.choice(["", "", "n", "r", "s", "l"]) for _ in range(R.randint(1, 3)))
def word(R): return invented(R) if R.random() < .2 else R.choice(R.choice([WORDS, WORDS, NAMES, CITIES, COLORS, ANIMALS, FRUIT]))


def copying(R):
    k = R.randrange(4); x = [word(R) for _ in range(R.randint(3, 9))]; sep = R.choice([" ", ", "])
    if k < 2: return turn(R.choice(["Repeat after me: {}", "Say: {}", "Echo: {}", "Repeat: {}"]).format(sep.join(x)), "I repeat the words.", sep.join(x), low="I repeat.", check=f"{len(x)} words.")
    if k == 2: return turn(R.choice(["Reverse the list: {}.", "Reverse this list: {}.", "Write this list backwards: {}."]).format(", ".join(x)), f"The list has {len(x)} items.", ", ".join(x[::-1]) + ".", low="I reverse.", check=f"{x[-1]} comes first.")
    i = R.randrange(len(x)); x = list(dict.fromkeys(x)); i = min(i, len(x) - 1)
    if R.random() < .5 and i: return turn(R.choice(["Which word comes before {} in: {}?", "What is before {} in this list: {}?"]).format(x[i], ", ".join(x)), f"I look for {x[i]}.", f"{x[i - 1]}.", low="I look.", check=f"{x[i]} follows {x[i - 1]}.")
    i = min(i, len(x) - 2)
    return turn(R.choice(["Which word comes after {} in: {}?", "What is after {} in this list: {}?"]).format(x[i], ", ".join(x)), f"I look for {x[i]}.", f"{x[i + 1]}.", low="I look.", check=f"{x[i + 1]} follows {x[i]}.")


def faq(R):
    q, r, a = R.choice(FAQ); s = R.choice(q)
    if ord(s[0]) > 0x2e80: return turn(s + R.choice(["?", "", "?", "。"]), r, a)
    p = R.choice(PRE); s = s if p else R.choice([s, s[0].upper() + s[1:]])
    return turn(p + s + R.choice(POST), r, a)


def ood(R):
    x = R.choice(OOD)
    return turn(R.choice(["Tell me about {}.", "What do you know about {}?", "Explain {}.", "I want to hear about {}.", "Write about {}.", "Can you help me with {}?", "{}?"]).format(x),
                "This is outside of what I know.", "Sorry, I am only a tiny demo model and do not know about that. Ask me for small sums, capitals, spelling or JSON.")


PLACE = ["Units", "Tens", "Hundreds", "Thousands"]
def add_steps(a, b):
    n = max(len(str(a)), len(str(b))); x, y = str(a).zfill(n), str(b).zfill(n); s, c = f"{x} + {y}.", 0
    for i in range(n):
        t = int(x[-1 - i]) + int(y[-1 - i]) + c; s += f" {PLACE[i]} {x[-1 - i]}+{y[-1 - i]}+{c}={t}: write {t % 10}, carry {t // 10}."; c = t // 10
    return s + f" So {a + b}."
def sub_steps(a, b):
    if a < b: return f"{a} is smaller than {b}, so the result is negative. " + sub_steps(b, a)[:-1] + f" and the result is {a - b}."
    n = len(str(a)); x, y = str(a), str(b).zfill(n); s, c = f"{x} - {y}.", 0
    for i in range(n):
        t = int(x[-1 - i]) - int(y[-1 - i]) - c; k = int(t < 0); s += f" {PLACE[i]} {x[-1 - i]}-{y[-1 - i]}-{c}={t}: write {t % 10}, borrow {k}."; c = k
    return s + f" Digits {str(a - b).zfill(n)}. So {a - b}."
def mul_steps(a, b):
    if a < 10 and b < 10: return f"From the table: {a}*{b}={a * b}."
    if a < 10: return f"Swap: {b}*{a}. " + mul_steps(b, a)
    u, t = a % 10 * b, a // 10 * b
    return f"{a}*{b}. Units {a % 10}*{b}={u}: write {u % 10}, carry {u // 10}. Tens {a // 10}*{b}={t}, {t}+{u // 10}={t + u // 10}. So {a * b}."


def parts(a, b, op):
    """The results of the places alone, from the units up: what addition and subtraction write before they carry."""
    if op == "*": a, b = max(a, b), min(a, b); return [a * b] if a < 10 else [a % 10 * b, a // 10 * b]
    out, c = [], 0; a, b = (max(a, b), min(a, b)) if op == "-" else (a, b)
    for i in range(len(str(max(a, b)))):
        x, y = a // 10 ** i % 10, b // 10 ** i % 10; t = x + y + c if op == "+" else x - y - c; out.append(t)
        c = t // 10 if op == "+" else int(t < 0)
    return out


def arith(R, op=None):
    op = op or R.choice("++--*")
    if op == "*":
        a, b = (R.randint(2, 9), R.randint(2, 9)) if R.random() < .4 else (R.randint(11, 99), R.randint(2, 9))
        if R.random() < .25: a, b = b, a
        s, v, f = mul_steps(a, b), a * b, ["{}*{}", "{} * {}", "{} times {}", "{} x {}", "{} multiplied by {}"]
    else:
        d = lambda: R.randint(0, 9) if (q := R.random()) < .2 else R.randint(10, 99) if q < .5 else R.randint(100, 999)
        a, b = d(), d()
        if op == "+": s, v, f = add_steps(a, b), a + b, ["{}+{}", "{} + {}", "{} plus {}"]
        else:
            if a < b and R.random() < .7: a, b = b, a
            s, v, f = sub_steps(a, b), a - b, ["{}-{}", "{} - {}", "{} minus {}"]
    e = R.choice(f).format(a, b)
    u = R.choice(["What is {}?", "Compute {}.", "{}", "{} = ?", "Calculate {}.", "How much is {}?", "{}=", "what is {}", "Please calculate {}.", "Can you compute {}?", "Solve {}."]).format(e)
    a_ = f"{a} {op} {b} = {v}."
    low = {"+": "I add: ", "-": "I subtract: ", "*": "I multiply: "}[op] + " ".join(map(str, parts(a, b, op))) + "."
    check = {"+": f"{v}-{b}={a}.", "-": f"{v}+{b}={a}.", "*": f"{v}/{b}={a}."}[op]
    return turn(u, s, a_, s + "\n" + a_, low, check)


def count(R):
    if R.random() < .15:
        n = R.randint(3, 20); s = ", ".join(map(str, range(n, 0, -1)))
        return turn(R.choice(["Count down from {}.", "Count down from {} to 1.", "Count backwards from {} to 1."]).format(n), f"Count down from {n} to 1.", s + ".", low="I count.", check=f"{n} numbers.")
    a = 1 if R.random() < .75 else R.randint(2, 40); n = min(60, a + R.choice([R.randint(2, 12), R.randint(5, 30), R.randint(10, 59)]))
    q = ["Count from {a} to {n}.", "count from {a} to {n}", "Please count from {a} to {n}.", "Write the numbers from {a} to {n}.", "List all numbers from {a} to {n}.", "Count {a} to {n}"] + (["Count to {n}.", "Count up to {n}."] if a == 1 else [])
    return turn(R.choice(q).format(a=a, n=n), f"Start at {a}, stop at {n}.", ", ".join(map(str, range(a, n + 1))) + ".", low="I count.", check=f"{n - a + 1} numbers.")


def words(R):
    w = R.choice(WORDS); k = R.randrange(5); sp = "-".join(w)
    if k == 0: return turn(R.choice(["Spell {}.", "How do you spell {}?", "Spell the word {}.", "spell {}", "Please spell {}.", "Spell \"{}\"."]).format(w), f"The word is {w}.", sp, low="I spell.", check=f"{len(w)} letters.")
    if k == 1: return turn(R.choice(["Reverse {}.", "Reverse the word {}.", "Spell {} backwards.", "Write {} backwards.", "What is {} in reverse?"]).format(w), f"{w} is {sp}.", "-".join(w[::-1]), sp + " -> " + "-".join(w[::-1]), "I reverse.", f"{w[-1]} comes first.")
    if k == 2:
        n = R.randint(2, 6); return turn(R.choice(["Repeat {} {} times.", "Say {} {} times.", "Write {} {} times.", "Repeat the word {} {} times."]).format(w, n), f"Repeat {w}, {n} times.", " ".join([w] * n), low="I repeat.", check=f"{n} words.")
    if k == 3: return turn(R.choice(["How many letters are in {}?", "How many letters does {} have?", "Count the letters in {}.", "Length of the word {}?"]).format(w),
                           " ".join(f"{i + 1} {c}" for i, c in enumerate(w)) + ".", f"The word {w} has {len(w)} letters.", " ".join(f"{i + 1} {c}" for i, c in enumerate(w)) + f". The word {w} has {len(w)} letters.", "I count.", f"{sp} has {len(w)}.")
    ws = " ".join(R.choice(WORDS) for _ in range(R.randint(2, 5)))
    return turn(R.choice(["Repeat after me: {}", "Say: {}", "Echo: {}", "Repeat: {}"]).format(ws), "I repeat the words.", ws, low="I repeat.", check=f"{ws.count(' ') + 1} words.")


def listing(R):
    k = R.randrange(5)
    if k < 2:
        n = R.randint(3, 5); x = R.sample(range(0, 100), n) if R.random() < .7 else R.sample(range(0, 10), n)
        if R.random() < .75 or k == 1:
            s = sorted(x); u = R.choice(["Sort {}.", "Sort these numbers: {}.", "Sort the list {}.", "Put in order: {}.", "sort {}", "Order these from small to large: {}."])
        else: s = sorted(x)[::-1]; u = R.choice(["Sort in descending order: {}.", "Sort {} from large to small."])
        steps, rest = "", list(x)
        for y in s:
            rest.remove(y); steps += f"{y}" + (f" (left {' '.join(map(str, rest))}), " if len(rest) > 1 else ", " if rest else ".")
        return turn(u.format(", ".join(map(str, x))), "Take one at a time: " + steps, ", ".join(map(str, s)) + ".", "Take one at a time: " + steps + "\nSorted: " + ", ".join(map(str, s)) + ".",
                    "I sort.", f"{n} numbers, from {s[0]} to {s[-1]}.")
    if k == 2:
        a, b = R.randint(0, 999), R.randint(0, 999)
        if R.random() < .5: a, b = a % 100, b % 100
        if a == b: b += 1
        if R.random() < .5: return turn(R.choice(["Which is larger, {} or {}?", "Which number is bigger: {} or {}?", "What is larger, {} or {}?", "Max of {} and {}?"]).format(a, b), f"Compare {a} and {b}.", f"{max(a, b)} is larger than {min(a, b)}.", low="I compare.", check=f"{max(a, b)} > {min(a, b)}.")
        return turn(R.choice(["Which is smaller, {} or {}?", "Which number is smaller: {} or {}?", "Min of {} and {}?"]).format(a, b), f"Compare {a} and {b}.", f"{min(a, b)} is smaller than {max(a, b)}.", low="I compare.", check=f"{min(a, b)} < {max(a, b)}.")
    if k == 3:
        x = [R.choice(FRUIT + ANIMALS + COLORS) for _ in range(R.randint(3, 5))]
        return turn(R.choice(["Reverse the list: {}.", "Reverse this list: {}.", "Write this list backwards: {}."]).format(", ".join(x)), f"The list has {len(x)} items.", ", ".join(x[::-1]) + ".", low="I reverse.", check=f"{x[-1]} comes first.")
    a = R.randint(0, 200)
    return turn(R.choice(["Is {} even or odd?", "Is {} odd or even?", "Even or odd: {}?"]).format(a), f"The last digit is {a % 10}.", f"{a} is {'odd' if a % 2 else 'even'}.", low="I look.", check=f"{a % 10} is {'odd' if a % 2 else 'even'}.")


def capital(R):
    if R.random() < .3:
        l = R.choice(list(CAPX)); q, a, d = CAPX[l]; c, k = R.choice([x.split("|") for x in d.split(";")])
        r = {"zh": f"用户问{c}的首都:{k}。", "fr": f"La réponse est {k}.", "de": f"Die Antwort ist {k}.", "es": f"La respuesta es {k}."}[l]
        return turn(R.choice(q).format(c), r, a.format(c, k))
    c, k, f = R.choice(CAP)
    if R.random() < .15: return turn(R.choice(["{} is the capital of which country?", "Which country has the capital {}?"]).format(k), f"{k} belongs to {c}.", f"{k} is the capital of {c}.", low="I know it.", check=f"{c}: {k}.")
    return turn(R.choice(CAPQ).format(c), f"The user asks for the capital of {c}: {k}.", f"The capital of {c} is {k}." + (" " + f if f else ""),
                low="I know it.", check=f"{c}: {k}.")


def day(R):
    i = R.randrange(7); t = R.random() < .5
    return turn((R.choice(["Which day comes after {}?", "What day is after {}?", "Day after {}?"]) if t else R.choice(["Which day comes before {}?", "What day is before {}?"])).format(DAYS[i]),
                f"The day is {DAYS[i]}.", f"{DAYS[(i + (1 if t else -1)) % 7]} comes {'after' if t else 'before'} {DAYS[i]}.")


def markdown(R):
    k = R.randrange(4)
    if k == 0:
        l = R.choice(list(HELLO)); t, c = HELLO[l]
        return turn(R.choice(["Hello world in {}", "Write hello world in {}.", "Show me a hello world program in {}.", "How do I print hello world in {}?", "Give me hello world in {}, please.", "{} hello world"]).format(l),
                    f"The user wants hello world in {l}. I use a code block.", f"Hello world in {l}:\n\n```{t}\n{c}\n```")
    if k == 1:
        cs = R.sample(CAP, R.randint(2, 4)); n = [c[0] for c in cs]
        return turn(R.choice(["Make a table of the capitals of {}.", "Show the capitals of {} as a table.", "Table of capitals: {}.", "Give me a markdown table with the capitals of {}."]).format(", ".join(n[:-1]) + " and " + n[-1]),
                    f"A table with {len(n)} rows.", "| Country | Capital |\n|---|---|\n" + "\n".join(f"| {c[0]} | {c[1]} |" for c in cs))
    if k == 2:
        x = R.sample(R.choice([FRUIT, ANIMALS, COLORS]), R.randint(2, 5)); num = R.random() < .4
        return turn(R.choice(["Make a {}list of: {}.", "Write a {}list with {}.", "Format as a {}list: {}."]).format("numbered " if num else R.choice(["bullet ", ""]), ", ".join(x)), f"A {'numbered' if num else 'bullet'} list with {len(x)} items.",
                    "\n".join((f"{i + 1}. " if num else "- ") + y for i, y in enumerate(x)))
    a = R.randint(2, 9); n = R.randint(3, 6)
    return turn(R.choice(["Show the table of {} up to {}.", "Multiplication table of {} up to {} as a table.", "Give me a table with {} times 1 to {}."]).format(a, n), f"A table with {n} rows.",
                "| n | result |\n|---|---|\n" + "\n".join(f"| {i} | {a * i} |" for i in range(1, n + 1)))
