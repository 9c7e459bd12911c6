// Expressions to instructions.
#include <algorithm>
#include <string>
#include <utility>

#include "model/grammar/grammar.hpp"
#include "model/grammar/program.hpp"

namespace k3::grammar {
namespace {

Error invalid(std::string message) { return fail(ErrorCode::invalid_argument, "grammar: " + std::move(message)); }

class Emitter {
 public:
  Emitter(Program& program, const Limits& limits, std::size_t rules) : program_(program), limits_(limits), rules_(rules) {}

  Result<void> rule(const Expression& body) {
    program_.entries.push_back(here());
    if (auto done = emit(body, 0); done.has_error()) return done;
    put(Op::end);
    return {};
  }

 private:
  Address here() const { return static_cast<Address>(program_.code.size()); }
  Address put(Op op, std::uint32_t a = 0, std::uint32_t b = 0) {
    program_.code.push_back({op, a, b});
    return here() - 1;
  }

  Result<void> emit(const Expression& e, std::size_t nesting) {
    // Expressions are counted too, not only what they emit: shared empty ones would double for ever without a single instruction.
    if (++visited_ > limits_.instructions || program_.code.size() + e_size(e) > limits_.instructions) {
      return invalid("more than " + std::to_string(limits_.instructions) + " instructions; make the grammar or schema smaller");
    }
    if (nesting > limits_.nesting) return invalid("expressions nested more than " + std::to_string(limits_.nesting) + " deep");
    switch (e.kind()) {
      case Expression::Kind::bytes:
        for (const char c : e.literal()) put(Op::symbol, static_cast<unsigned char>(c));
        return {};
      case Expression::Kind::byte_class:
        put(Op::set, set_index(e.set()));
        return {};
      case Expression::Kind::token:
        return token(e.id());
      case Expression::Kind::sequence:
        for (const Expression& part : e.parts()) {
          if (auto done = emit(part, nesting + 1); done.has_error()) return done;
        }
        return {};
      case Expression::Kind::choice:
        return choice(e.parts(), nesting);
      case Expression::Kind::repeat:
        return repeat(e, nesting);
      case Expression::Kind::rule:
        if (e.index() >= rules_) return invalid("there is no rule " + std::to_string(e.index()));
        put(Op::call, e.index());
        return {};
    }
    return {};
  }

  static std::size_t e_size(const Expression& e) { return e.kind() == Expression::Kind::bytes ? e.literal().size() : 1; }

  Result<void> token(TokenId id) {
    const auto found = std::lower_bound(program_.tokens.begin(), program_.tokens.end(), id);
    put(Op::symbol, first_token + static_cast<Symbol>(found - program_.tokens.begin()));
    return {};
  }

  // Equal sets come in clusters (a string's bytes, digits), so looking back a little finds most.
  std::uint32_t set_index(const ByteSet& set) {
    const std::size_t count = program_.sets.size();
    for (std::size_t back = 1; back <= std::min<std::size_t>(count, 32); ++back) {
      if (program_.sets[count - back] == set) return static_cast<std::uint32_t>(count - back);
    }
    program_.sets.push_back(set);
    return static_cast<std::uint32_t>(count);
  }

  Result<void> choice(const std::vector<Expression>& options, std::size_t nesting) {
    const auto first = static_cast<std::uint32_t>(program_.targets.size());
    put(Op::split, first, static_cast<std::uint32_t>(options.size()));
    program_.targets.resize(first + options.size());
    std::vector<Address> ends;
    for (std::size_t i = 0; i < options.size(); ++i) {
      program_.targets[first + i] = here();
      if (auto done = emit(options[i], nesting + 1); done.has_error()) return done;
      if (i + 1 < options.size()) ends.push_back(put(Op::jump));
    }
    for (const Address end : ends) program_.code[end].a = here();
    return {};
  }

  Address split_in_two() {
    const auto first = static_cast<std::uint32_t>(program_.targets.size());
    program_.targets.resize(first + 2);
    return put(Op::split, first, 2);
  }
  void aim(Address split, Address one, Address other) {
    const std::uint32_t first = program_.code[split].a;
    program_.targets[first] = one;
    program_.targets[first + 1] = other;
  }

  Result<void> repeat(const Expression& e, std::size_t nesting) {
    const Expression& body = e.parts().front();
    const std::uint32_t min = e.min(), max = e.max();
    if (min > max) return invalid("a repetition of at least " + std::to_string(min) + " and at most " + std::to_string(max));
    if (max == 0) return {};
    if (max == 1 && min == 1) return emit(body, nesting + 1);
    if (max > 1 && max < unbounded) return counted(body, min, max, nesting);
    if (min > 1) return counted(body, min, max, nesting);
    // Optional, any number, or one and more: no count is needed.
    const Address before = min == 0 ? split_in_two() : here();
    const Address begin = here();
    if (auto done = emit(body, nesting + 1); done.has_error()) return done;
    if (max == unbounded && min == 0) put(Op::jump, before);
    if (max == unbounded && min == 1) {
      const Address after = split_in_two();
      aim(after, begin, here());
    }
    if (min == 0) aim(before, begin, here());
    return {};
  }

  Result<void> counted(const Expression& body, std::uint32_t min, std::uint32_t max, std::size_t nesting) {
    const auto loop = static_cast<std::uint32_t>(program_.loops.size());
    program_.loops.push_back({min, max, 0, 0});
    put(Op::count, loop);
    const Address begin = here();
    if (auto done = emit(body, nesting + 1); done.has_error()) return done;
    put(Op::again);
    program_.loops[loop].body = begin;
    program_.loops[loop].after = here();
    return {};
  }

  Program& program_;
  const Limits& limits_;
  std::size_t rules_;
  std::size_t visited_ = 0;
};

// The control tokens must be known, and in order, before the first is emitted. Shared parts may be visited more than once; the
// emitter's limit on visits is applied here too.
Result<void> collect_tokens(const Expression& e, std::vector<TokenId>& tokens, std::size_t& visits, const Limits& limits,
                            std::size_t nesting) {
  if (++visits > limits.instructions || nesting > limits.nesting) return {};  // the emitter will say so
  if (e.kind() == Expression::Kind::token) {
    if (e.id() < 0) return invalid("a control token with the id " + std::to_string(e.id()));
    const auto place = std::lower_bound(tokens.begin(), tokens.end(), e.id());
    if (place == tokens.end() || *place != e.id()) tokens.insert(place, e.id());
    if (tokens.size() > limits.control_tokens) {
      return invalid("more than " + std::to_string(limits.control_tokens) + " different control tokens");
    }
  }
  for (const Expression& part : e.parts()) {
    if (auto done = collect_tokens(part, tokens, visits, limits, nesting + 1); done.has_error()) return done;
  }
  return {};
}

bool leads_to_end(const Program& program, Address at) {
  while (program.code[at].op == Op::jump) at = program.code[at].a;
  return program.code[at].op == Op::end;
}

// Rules become addresses. What is called with nothing left to do after it is jumped to; that is decided for all before any is
// changed.
void link(Program& program) {
  std::vector<Address> tails;
  for (Address at = 0; at < program.code.size(); ++at) {
    if (program.code[at].op == Op::call && leads_to_end(program, at + 1)) tails.push_back(at);
  }
  for (Instruction& instruction : program.code) {
    if (instruction.op == Op::call) instruction.a = program.entries[instruction.a];
  }
  for (const Address tail : tails) program.code[tail].op = Op::jump;
}

std::string rule_at(const Program& program, Address at) {
  const auto after = std::upper_bound(program.entries.begin(), program.entries.end(), at);
  const auto rule = static_cast<std::size_t>(after - program.entries.begin()) - 1;
  return rule + 1 == program.entries.size() ? "the root" : "rule " + std::to_string(rule);
}

Result<void> check(const Program& program) {
  const Finish& root = program.finish[program.root()];
  if (root.symbols == Finish::never) return invalid("it can never end");
  if (root.height > program.depth) {
    return invalid("its shortest text is nested " + std::to_string(root.height) + " deep; at most " +
                   std::to_string(program.depth));
  }
  for (const Loop& loop : program.loops) {
    if (program.finish[loop.body].symbols == 0) {
      return invalid(rule_at(program, loop.body) + " counts repetitions of something that may be empty");
    }
  }
  if (const Address at = find_left_recursion(program); at != Finish::never) {
    return invalid(rule_at(program, at) + " calls itself before anything is written; write the recursion on the right");
  }
  return {};
}

}  // namespace

Grammar::Grammar(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
Grammar::~Grammar() = default;

Result<std::shared_ptr<const Grammar>> compile(const Rules& rules, const Expression& root, const Limits& limits) {
  auto program = std::make_unique<Program>();
  program->depth = limits.depth;
  std::size_t visits = 0;
  for (RuleIndex i = 0; i <= rules.size(); ++i) {
    const Expression& body = i < rules.size() ? rules.body(i) : root;
    if (auto done = collect_tokens(body, program->tokens, visits, limits, 0); done.has_error()) return done.error();
  }
  Emitter emitter(*program, limits, rules.size());
  for (RuleIndex i = 0; i <= rules.size(); ++i) {
    if (auto done = emitter.rule(i < rules.size() ? rules.body(i) : root); done.has_error()) return done.error();
  }
  link(*program);
  find_finishes(*program);
  if (auto done = check(*program); done.has_error()) return done.error();
  return std::make_shared<const Grammar>(std::move(program));
}

}  // namespace k3::grammar
