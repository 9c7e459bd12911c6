// How far each instruction is from its end. Knuth's generalisation of Dijkstra's algorithm: an instruction whose way is known
// settles those that wait for it, the nearest first, so that each is settled once and recursion needs no rounds.
#include <algorithm>
#include <functional>
#include <queue>

#include "model/grammar/program.hpp"

namespace k3::grammar {
namespace {

struct Settled {
  Finish finish;
  Address at;
  friend auto operator<=>(const Settled&, const Settled&) = default;
};

class FinishSearch {
 public:
  explicit FinishSearch(Program& program) : program_(program) {
    program_.finish.assign(program_.code.size(), {});
    link_waiting();
  }

  void run() {
    for (Address at = 0; at < program_.code.size(); ++at) {
      const Op op = program_.code[at].op;
      if (op == Op::end || op == Op::again) queue_.push({{0, 0}, at});
    }
    while (!queue_.empty()) {
      const Settled next = queue_.top();
      queue_.pop();
      if (program_.finish[next.at].symbols != Finish::never) continue;
      program_.finish[next.at] = next.finish;
      for (std::uint32_t i = first_waiting_[next.at]; i < first_waiting_[next.at + 1]; ++i) consider(waiting_[i]);
    }
  }

 private:
  // Calls see(other) for each instruction whose way the way of `at` depends on.
  template <class See>
  void each_operand(Address at, const See& see) const {
    const Instruction& i = program_.code[at];
    if (i.op == Op::symbol || i.op == Op::call) see(at + 1);
    if (i.op == Op::set && program_.sets[i.a].any()) see(at + 1);
    if (i.op == Op::jump || i.op == Op::call) see(i.a);
    if (i.op == Op::split) {
      for (std::uint32_t t = i.a; t < i.a + i.b; ++t) see(program_.targets[t]);
    }
    if (i.op == Op::count) {
      const Loop& loop = program_.loops[i.a];
      see(loop.after);
      if (loop.min > 0) see(loop.body);
    }
  }

  void link_waiting() {
    const auto count = static_cast<Address>(program_.code.size());
    first_waiting_.assign(count + 2, 0);
    for (Address at = 0; at < count; ++at) each_operand(at, [&](Address other) { ++first_waiting_[other + 2]; });
    for (Address at = 2; at < count + 2; ++at) first_waiting_[at] += first_waiting_[at - 1];
    waiting_.resize(first_waiting_.back());
    for (Address at = 0; at < count; ++at) {
      each_operand(at, [&](Address other) { waiting_[first_waiting_[other + 1]++] = at; });
    }
  }

  // One operand of `at` is settled. A choice takes the first, which is the nearest; others wait until all are.
  void consider(Address at) {
    if (program_.finish[at].symbols != Finish::never) return;
    Finish way{0, 0};
    const Instruction& i = program_.code[at];
    if (i.op == Op::split) {
      way.symbols = Finish::never;
      each_operand(at, [&](Address other) { way = std::min(way, program_.finish[other]); });
    } else {
      each_operand(at, [&](Address other) {
        const Finish& part = program_.finish[other];
        const bool opens = (i.op == Op::call && other == i.a) || (i.op == Op::count && other == program_.loops[i.a].body);
        const bool repeats = i.op == Op::count && opens;
        way.symbols = add_far(way.symbols, repeats ? times_far(program_.loops[i.a].min, part.symbols) : part.symbols);
        way.height = std::max(way.height, part.height + (opens ? 1 : 0));
      });
      if (i.op == Op::symbol || i.op == Op::set) way.symbols = add_far(way.symbols, 1);
    }
    if (way.symbols != Finish::never) queue_.push({way, at});
  }

  Program& program_;
  std::priority_queue<Settled, std::vector<Settled>, std::greater<>> queue_;
  std::vector<std::uint32_t> first_waiting_;  // [instruction], into waiting_
  std::vector<Address> waiting_;
};

}  // namespace

void find_finishes(Program& program) { FinishSearch(program).run(); }

}  // namespace k3::grammar
