#!/usr/bin/python3
"""chat_terminal.py K3: `k3 chat` at a terminal. An answer; an answer stopped by Ctrl-C in its middle, after which the program goes on as if that
turn had not been; Ctrl-\\ that ends its thinking; Ctrl-C at the prompt; /reset; Ctrl-D. Only a hang meets the clock."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios

K3 = sys.argv[1]
PATIENCE = 300  # seconds without a sign of life
LONG = "Count 1 to 60."
PROMPT = "> \x1b[0m"  # as it ends on the screen


class Terminal:
    """The program at one end of a pseudo-terminal, whose other end this is. Both its outputs go there, as they would for a person."""

    def __init__(self, model="bundled"):
        self.screen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # The slowest kernels on one thread: an answer lasts long enough to be interrupted.
            os.execv(K3, [K3, "chat", model, "--temperature", "0", "--isa", "scalar", "--threads", "1", "--expert-gb", "0"])
        settings = termios.tcgetattr(self.fd)
        settings[3] &= ~termios.ECHO  # what is typed would be found on the screen as if it had been answered
        termios.tcsetattr(self.fd, termios.TCSANOW, settings)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def until(self, found):
        """Reads on until `found`, a text or a test of the screen; returns what stood on the screen and takes it off."""
        holds = found if callable(found) else lambda screen: found in screen
        while not holds(self.screen):
            ready, _, _ = select.select([self.fd], [], [], PATIENCE)
            data = b""
            if ready:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:  # the program has ended
                    pass
            if not data:
                self.give_up(f"no {found!r} on the screen: {self.screen!r}")
            self.screen += data.decode(errors="replace")
        seen, self.screen = self.screen, ""
        return seen

    def ask(self, text):
        self.type(text + "\n")
        return self.until(PROMPT)

    def give_up(self, why):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        sys.exit("FAILED: " + why)

    def end(self):
        """The exit code, after everything it still had to say."""
        while True:
            ready, _, _ = select.select([self.fd], [], [], PATIENCE)
            if not ready:
                self.give_up("it does not end")
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def check(holds, what):
    if not holds:
        sys.exit("FAILED: " + what)
    print("ok      " + what, flush=True)


def whole_answer():
    """What the long question is answered where nobody stops it."""
    chat = Terminal()
    chat.until(PROMPT)
    answer = chat.ask(LONG)
    chat.type("\x04")
    check(chat.end() == 0, "Ctrl-D ends the program well")
    return answer


def stopped_answer(whole):
    chat = Terminal()
    chat.until(PROMPT)
    check("Paris" in chat.ask("What is the capital of France?"), "a question is answered")
    chat.type(LONG + "\n")
    begun = chat.until(lambda screen: re.search(r"\b2\b", screen))
    chat.type("\x03")
    rest = chat.until(PROMPT)
    check("stopped" in rest, "Ctrl-C stops an answer, and says so")
    check(len(begun + rest) < len(whole), "the rest of a stopped answer does not come")
    check("Paris" in chat.ask("What is the capital of France?"), "the next question is answered")
    return chat


def interrupts_at_the_prompt(chat):
    chat.type("\x03")
    check("again" in chat.until(PROMPT), "Ctrl-C at the prompt asks for a second one")
    check("stopped" not in chat.ask("What is 1+1?"), "a question between two Ctrl-C is answered")
    # No animal that the small model would guess by itself.
    chat.ask("My pet is a lizard.")
    check("lizard" in chat.ask("What pet do I have?"), "what was said is remembered")
    chat.ask("/reset")
    check("lizard" not in chat.ask("What pet do I have?"), "/reset forgets what was said")
    chat.type("\x03")
    chat.until(PROMPT)
    chat.type("\x03")
    check(chat.end() == 130, "two Ctrl-C in a row at the prompt end the program, with a shell's code for it")


def endless_thinker(folder):
    """A model of random weights: it never closes its thinking by itself."""
    model = os.path.join(folder, "model")
    subprocess.run([K3, "synth", model, "--layers", "4", "--experts", "8", "--tiny", "--seed", "3"], check=True, stdout=subprocess.DEVNULL)
    return model


def ended_thinking(model):
    chat = Terminal(model)
    check("Ctrl-\\ ends its thinking" in chat.until(PROMPT), "the help line names the key")
    chat.type("hi\n")
    chat.until(lambda screen: re.search("\x1b\\[2m(?!reading)", screen))  # dimmed: it thinks
    chat.type("\x1c")
    chat.until("\x1b[0m\r\n\r\n")  # bright again: it answers
    check(True, "Ctrl-\\ ends the thinking, and the answer begins")
    chat.type("\x03")
    check("stopped" in chat.until(PROMPT), "Ctrl-C stops the answer that follows")
    chat.type("\x1c")
    chat.type("\x04")
    check(chat.end() == 0, "Ctrl-\\ at the prompt does nothing")


def ended_thinking_once(model):
    chat = subprocess.Popen([K3, "chat", model, "--temperature", "0", "--once", "hi"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, bufsize=0)
    check(chat.stderr.read(1) != b"", "a model that thinks for ever thinks")
    chat.send_signal(signal.SIGQUIT)
    check(chat.stdout.read(1) != b"", "SIGQUIT ends the thinking of --once, and the answer follows")
    chat.send_signal(signal.SIGINT)
    chat.stderr.read()
    check(chat.wait() == 130, "and SIGINT ends that")


def has_terminals():
    try:
        for end in os.openpty():
            os.close(end)
        return True
    except OSError:
        return False


with tempfile.TemporaryDirectory() as folder:
    thinker = endless_thinker(folder)
    ended_thinking_once(thinker)
    if has_terminals():
        ended_thinking(thinker)
if has_terminals():
    interrupts_at_the_prompt(stopped_answer(whole_answer()))
else:
    print("skipped: this system gives no pseudo-terminals (a chroot without /dev/pts?)")
