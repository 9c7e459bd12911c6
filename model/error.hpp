// Errors are values. An operating path returns Result<T>; what went wrong carries enough to act on it.
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace k3 {

enum class ErrorCode {
  invalid_argument,  // the caller's request or file is wrong; `message` says what is supported
  not_found,         // a file, tensor or name that should exist does not
  corrupt,           // bytes that contradict themselves or their description
  unsupported,       // well-formed, but this build cannot do it
  io,                // the operating system refused; `message` carries its words
  cancelled,         // the ticket was withdrawn; nothing was changed
  overloaded,        // a bounded queue is full
  out_of_memory,     // a budget does not suffice; `message` shows the arithmetic
  internal,          // a bug of ours, reported rather than hidden
};

// `file`, `offset`, `expected` and `got` are filled where they mean something; describe() prints only those.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::string file{};
  std::int64_t offset = -1;  // bytes from the start of `file`; -1: not about a place in a file
  std::string expected{};
  std::string got{};

  std::string describe() const {
    std::string text = message;
    if (!file.empty()) text += " [" + file + (offset >= 0 ? " at byte " + std::to_string(offset) : std::string()) + "]";
    if (!expected.empty()) text += ", expected " + expected;
    if (!got.empty()) text += ", got " + got;
    return text;
  }
};

template <class T>
using Result = boost::system::result<T, Error>;

inline Error fail(ErrorCode code, std::string message) { return Error{code, std::move(message)}; }

// boost::system::result calls this from .value() on an error: only start-up code and tests use .value().
[[noreturn]] inline void throw_exception_from_error(const Error& error, const boost::source_location&) {
  throw std::runtime_error(error.describe());
}

}  // namespace k3
