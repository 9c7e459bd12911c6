#include "tests/kernels/amx_instructions.hpp"

#include <ucontext.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace k3::kernels::test {
namespace {

struct Shapes {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
static_assert(sizeof(Shapes) == 64);

struct {
  Shapes shapes;
  std::uint8_t tile[8][16][64];
  volatile unsigned long played;
} state;

void must(bool condition) {
  if (!condition) std::abort();
}

std::uint64_t general_register(const ucontext_t& context, unsigned number) {
  constexpr int names[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[names[number]]);
}

// A VEX instruction of three bytes of prefix, the map 0F38, no more width than 128 bits.
struct Instruction {
  unsigned opcode, prefix;  // 0 none, 1 66, 2 F3, 3 F2
  unsigned mod, reg, rm, vvvv;
  std::uint64_t address, index;  // of an operand in memory
  std::uint64_t next;
};

Instruction decode(const ucontext_t& context) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
  must(p[0] == 0xC4 && (p[1] & 31U) == 2 && (p[2] & 0x84U) == 0);
  const unsigned x = p[1] & 0x40U ? 0 : 8;
  const unsigned b = p[1] & 0x20U ? 0 : 8;
  Instruction in = {};
  in.prefix = p[2] & 3U;
  in.vvvv = (~p[2] >> 3U) & 15U;
  in.opcode = p[3];
  in.mod = p[4] >> 6U;
  in.reg = (p[4] >> 3U) & 7U;
  in.rm = p[4] & 7U;
  p += 5;
  std::int32_t displacement = 0;
  bool relative = false;
  if (in.mod != 3) {
    unsigned base = in.rm;
    if (in.rm == 4) {
      base = *p & 7U;
      const unsigned number = ((*p >> 3U) & 7U) | x;
      in.index = number == 4 ? 0 : general_register(context, number) << (*p >> 6U);
      ++p;
    }
    relative = in.mod == 0 && in.rm == 5;
    const bool absolute = in.mod == 0 && in.rm == 4 && base == 5;
    if (in.mod == 1) {
      displacement = static_cast<std::int8_t>(*p++);
    } else if (in.mod == 2 || relative || absolute) {
      std::memcpy(&displacement, p, 4);
      p += 4;
    }
    in.address = relative || absolute ? 0 : general_register(context, base | b);
  }
  in.next = reinterpret_cast<std::uint64_t>(p);
  in.address += (relative ? in.next : 0) + static_cast<std::uint64_t>(std::int64_t{displacement});
  return in;
}

float flushed(float x) { return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }

float half(const std::uint8_t* p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16U;
  float x = 0.0F;
  std::memcpy(&x, &wide, 4);
  return flushed(x);
}

// C += A * B, of the sizes they are configured to.
template <class Value, class Dot>
void multiply(unsigned c, unsigned a, unsigned b, const Dot& dot) {
  const Shapes& s = state.shapes;
  must(s.rows[c] == s.rows[a] && s.row_bytes[c] == s.row_bytes[b] && s.row_bytes[a] == 4 * s.rows[b] && c != a && c != b && a != b);
  for (std::size_t i = 0; i < s.rows[c]; ++i) {
    for (std::size_t j = 0; j < s.row_bytes[c] / 4U; ++j) {
      Value sum;
      std::memcpy(&sum, state.tile[c][i] + 4 * j, 4);
      sum = dot(sum, state.tile[a][i], state.tile[b], j, s.rows[b]);
      std::memcpy(state.tile[c][i] + 4 * j, &sum, 4);
    }
  }
}

using Rows = const std::uint8_t (*)[64];

std::int32_t dot_int8(std::int32_t sum, const std::uint8_t* a, Rows b, std::size_t j, std::size_t dwords) {
  for (std::size_t k = 0; k < 4 * dwords; ++k) {
    sum += static_cast<std::int8_t>(a[k]) * static_cast<std::int8_t>(b[k / 4][4 * j + k % 4]);
  }
  return sum;
}

float dot_bf16(float sum, const std::uint8_t* a, Rows b, std::size_t j, std::size_t dwords) {
  float even = 0.0F;
  float odd = 0.0F;
  for (std::size_t k = 0; k < dwords; ++k) {
    even = flushed(std::fma(half(a + 4 * k), half(b[k] + 4 * j), even));
    odd = flushed(std::fma(half(a + 4 * k + 2), half(b[k] + 4 * j + 2), odd));
  }
  return flushed(flushed(sum) + flushed(even + odd));
}

void move(const Instruction& in, bool load) {
  for (std::size_t r = 0; r < state.shapes.rows[in.reg]; ++r) {
    auto* const p = reinterpret_cast<std::uint8_t*>(in.address + r * in.index);
    std::uint8_t* const row = state.tile[in.reg][r];
    if (load) {
      std::memset(row, 0, 64);
      std::memcpy(row, p, state.shapes.row_bytes[in.reg]);
    } else {
      std::memcpy(p, row, state.shapes.row_bytes[in.reg]);
    }
  }
}

// Opcode, prefix and whether the operand is in memory.
void play(const Instruction& in) {
  const bool memory = in.mod != 3;
  const unsigned what = in.opcode << 8U | in.prefix << 4U | (memory ? 1U : 0U);
  must(what == 0x4901 || state.shapes.palette == 1);
  switch (what) {
    case 0x4901:  // ldtilecfg
      std::memcpy(&state.shapes, reinterpret_cast<const void*>(in.address), 64);
      must(state.shapes.palette == 1);
      std::memset(state.tile, 0, sizeof(state.tile));
      break;
    case 0x4900:  // tilerelease
      state.shapes = {};
      break;
    case 0x4930:  // tilezero
      std::memset(state.tile[in.reg], 0, 1024);
      break;
    case 0x4b31:  // tileloadd
      move(in, true);
      break;
    case 0x4b21:  // tilestored
      move(in, false);
      break;
    case 0x5e30:  // tdpbssd
      multiply<std::int32_t>(in.reg, in.rm, in.vvvv, dot_int8);
      break;
    case 0x5c20:  // tdpbf16ps
      multiply<float>(in.reg, in.rm, in.vvvv, dot_bf16);
      break;
    default:
      std::abort();
  }
}

void on_illegal_instruction(int, siginfo_t*, void* machine) {
  auto& context = *static_cast<ucontext_t*>(machine);
  const Instruction in = decode(context);
  play(in);
  state.played = state.played + 1;
  context.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(in.next);
}

}  // namespace

PlayedInstructions::PlayedInstructions() {
  state = {};
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  must(sigaction(SIGILL, &action, &before_) == 0);
}

PlayedInstructions::~PlayedInstructions() { sigaction(SIGILL, &before_, nullptr); }

unsigned long PlayedInstructions::count() { return state.played; }

}  // namespace k3::kernels::test
