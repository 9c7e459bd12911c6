// A rule that calls itself before anything is written would open frames without end. Tarjan's components of the graph "leads to
// without writing": a call whose two ends lie in one component is such a rule.
#include <algorithm>

#include "model/grammar/program.hpp"

namespace k3::grammar {
namespace {

class Components {
 public:
  explicit Components(const Program& program) : program_(program), order_(program.code.size()), low_(program.code.size()) {}

  Address find() {
    for (Address at = 0; at < program_.code.size(); ++at) {
      if (order_[at] == 0) visit(at);
    }
    for (Address at = 0; at < program_.code.size(); ++at) {
      const Instruction& i = program_.code[at];
      const bool opens = i.op == Op::call || i.op == Op::count;
      const Address inner = i.op == Op::call ? i.a : at + 1;
      if (opens && leads(inner) && low_[at] == low_[inner]) return at;
    }
    return Finish::never;
  }

 private:
  struct Visit {
    Address at;
    std::uint32_t next;  // the next edge to follow
  };

  // What can never end is never entered.
  bool leads(Address to) const { return program_.finish[to].symbols != Finish::never; }

  // The `n`-th instruction that `at` leads to without writing; false if there are not so many.
  bool edge(Address at, std::uint32_t n, Address& to) const {
    const Instruction& i = program_.code[at];
    switch (i.op) {
      case Op::split:
        if (n < i.b) to = program_.targets[i.a + n];
        return n < i.b;
      case Op::jump:
        to = i.a;
        return n == 0;
      case Op::call:
        to = n == 0 ? i.a : at + 1;
        return n == 0 || (n == 1 && program_.finish[i.a].symbols == 0);
      case Op::count:
        to = n == 0 ? at + 1 : program_.loops[i.a].after;
        return n == 0 || (n == 1 && program_.loops[i.a].min == 0);
      default:
        return false;
    }
  }

  // Afterwards low_ of a finished component is one number for all of it: its first member's order.
  void visit(Address root) {
    std::vector<Visit> path{{root, 0}};
    while (!path.empty()) {
      Visit& visit = path.back();
      const Address at = visit.at;
      if (visit.next == 0) {
        order_[at] = low_[at] = ++count_;
        open_.push_back(at);
      }
      Address to = 0;
      if (edge(at, visit.next++, to)) {
        if (!leads(to)) continue;
        if (order_[to] == 0) {
          path.push_back({to, 0});
        } else if (!closed(to)) {
          low_[at] = std::min(low_[at], order_[to]);
        }
        continue;
      }
      if (low_[at] == order_[at]) close(at);
      path.pop_back();
      if (!path.empty() && !closed(at)) low_[path.back().at] = std::min(low_[path.back().at], low_[at]);
    }
  }

  static constexpr std::uint32_t closed_bit = 1U << 31;
  bool closed(Address at) const { return (low_[at] & closed_bit) != 0; }

  void close(Address first) {
    Address member = 0;
    do {
      member = open_.back();
      open_.pop_back();
      low_[member] = order_[first] | closed_bit;
    } while (member != first);
  }

  const Program& program_;
  std::uint32_t count_ = 0;
  std::vector<std::uint32_t> order_, low_;  // [instruction]; order 0: not visited
  std::vector<Address> open_;
};

}  // namespace

Address find_left_recursion(const Program& program) { return Components(program).find(); }

}  // namespace k3::grammar
