// The commands of the k3 program: each adds itself to the parser, and the one that was chosen leaves what to run.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <string>

#include "model/error.hpp"

namespace k3::cli {

enum Exit : int { exit_ok = 0, exit_failed = 1, exit_usage = 2 };

using Chosen = std::function<int()>;

void add_serve(CLI::App& app, Chosen& chosen);
void add_chat(CLI::App& app, Chosen& chosen);
void add_generate(CLI::App& app, Chosen& chosen);
void add_logits(CLI::App& app, Chosen& chosen);
void add_tokenize(CLI::App& app, Chosen& chosen);
void add_detokenize(CLI::App& app, Chosen& chosen);
void add_render(CLI::App& app, Chosen& chosen);
void add_parse(CLI::App& app, Chosen& chosen);
void add_verify(CLI::App& app, Chosen& chosen);
void add_repack(CLI::App& app, Chosen& chosen);
void add_synth(CLI::App& app, Chosen& chosen);
void add_doctor(CLI::App& app, Chosen& chosen);
void add_bench(CLI::App& app, Chosen& chosen);

// Says on stderr what went wrong; returns the exit code of a command that failed.
int report(const Error& error);
int report(const std::string& message);

// A mistake in how the program was called that the parser cannot see: `throw usage_error("--out needs --ids")`.
CLI::Error usage_error(const std::string& message);

}  // namespace k3::cli
