// GET /metrics: Prometheus' text format, version 0.0.4.
#include "server/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "server/endpoints.hpp"

namespace k3::server {

void Histogram::observe(double seconds) {
  const auto bound = std::lower_bound(bounds.begin(), bounds.end(), seconds);
  ++counts_[static_cast<std::size_t>(bound - bounds.begin())];
  sum_ += seconds;
}

namespace {

// One family after the other; each has its samples together, as the format asks for.
class Exposition {
 public:
  void counter(std::string_view name, std::string_view help) { family(name, "counter", help); }
  void gauge(std::string_view name, std::string_view help) { family(name, "gauge", help); }
  template <class Number>
  void counter(std::string_view name, std::string_view help, Number value) {
    counter(name, help);
    sample("", value);
  }
  template <class Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    gauge(name, help);
    sample("", value);
  }
  // `labels` as they are written, such as state="queued"; what they say needs no escaping.
  template <class Number>
  void sample(std::string_view labels, Number value) {
    line("", labels, value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& values) {
    family(name, "histogram", help);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < Histogram::bounds.size(); ++i) {
      below += values.counts()[i];
      line("_bucket", fmt::format("le=\"{}\"", Histogram::bounds[i]), below);
    }
    below += values.counts().back();
    line("_bucket", "le=\"+Inf\"", below);
    line("_sum", "", values.sum());
    line("_count", "", below);
  }
  std::string take() { return std::move(text_); }

 private:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class Number>
  void line(std::string_view suffix, std::string_view labels, Number value) {
    const std::string in_braces = labels.empty() ? std::string() : fmt::format("{{{}}}", labels);
    text_ += fmt::format("{}{}{} {}\n", name_, suffix, in_braces, value);
  }

  std::string text_;
  std::string_view name_;
};

void write_connections(Exposition& out, const App& app) {
  std::size_t reading = 0, answering = 0;
  for (const Connection* connection : app.connections) {
    reading += connection->reading ? 1 : 0;
    answering += connection->busy ? 1 : 0;
  }
  out.gauge("k3_connections", "Open connections: between requests, reading one, answering one.");
  out.sample("state=\"idle\"", app.connections.size() - reading - answering);
  out.sample("state=\"reading\"", reading);
  out.sample("state=\"answering\"", answering);
  out.counter("k3_accept_failures_total", "Connections that could not be accepted, for want of descriptors most likely.",
              app.metrics.accept_failures);
  out.counter("k3_tls_handshakes_failed_total", "Connections that ended before there was a key.", app.metrics.handshakes_failed);
}

void write_process(Exposition& out) {
  const ProcessUse use = process_use();
  out.counter("process_cpu_seconds_total", "Time of the processor.", use.cpu_seconds);
  out.gauge("process_resident_memory_bytes", "Memory that is there.", use.resident_bytes);
  out.gauge("process_virtual_memory_bytes", "Addresses taken.", use.virtual_bytes);
  out.gauge("process_open_fds", "Open files and sockets.", use.open_files);
  out.gauge("process_max_fds", "How many may be open.", use.most_files);
  out.gauge("process_threads", "Threads.", use.threads);
  out.gauge("process_start_time_seconds", "When the process started, in seconds of Unix time.", use.start_time);
}

void write_server(Exposition& out, const App& app) {
  const Metrics& m = app.metrics;
  out.gauge("k3_ready", "1 when the model is loaded and requests are taken.", app.model && !app.draining ? 1 : 0);
  out.gauge("k3_draining", "1 when the server is shutting down.", app.draining ? 1 : 0);
  out.gauge("k3_start_time_seconds", "When the server started, in seconds of Unix time.", app.started);
  write_connections(out, app);
  out.counter("k3_connections_refused_total", "Connections closed at once because there were too many.", m.connections_refused);
  out.counter("k3_requests_total", "Requests answered or given up; finish says how an answer of the model ended.");
  for (const auto& [what, count] : m.requests) {
    const std::string code = what.status == 0 ? "none" : std::to_string(what.status);
    out.sample(fmt::format("endpoint=\"{}\",code=\"{}\",finish=\"{}\"", what.endpoint, code, what.finish), count);
  }
  out.gauge("k3_requests_in_state", "Answers under way, as their clients see them.");
  for (std::size_t i = 0; i < kStageNames.size(); ++i) out.sample(fmt::format("state=\"{}\"", kStageNames[i]), m.in_stage[i]);
  out.counter("k3_cancelled_total", "Answers whose client left, by how far they were.");
  for (std::size_t i = 0; i < kStageNames.size(); ++i) out.sample(fmt::format("phase=\"{}\"", kStageNames[i]), m.left[i]);
  out.histogram("k3_queue_wait_seconds", "From a request to the beginning of its prompt.", m.queue_wait);
  out.histogram("k3_ttft_seconds", "From a request to its first token.", m.first_token);
  out.histogram("k3_inter_token_seconds", "From a token to the next.", m.between_tokens);
  out.histogram("k3_e2e_seconds", "From a request to the end of its answer; of those that have one.", m.whole_answer);
  out.counter("k3_sse_pings_total", "Comments sent to keep a silent stream alive.", m.pings);
  out.counter("k3_sse_backpressure_drops_total", "Answers given up because their reader took nothing, or fell too far behind.",
              m.backpressure_drops);
  out.counter("k3_generated_tokens_total", "Tokens of answers, by what they are part of.");
  for (std::size_t i = 0; i < kChannelNames.size(); ++i) out.sample(fmt::format("channel=\"{}\"", kChannelNames[i]), m.written[i]);
}

void write_drive(Exposition& out, const WorkDone& work) {
  const DriveUse& drive = work.drive;
  out.counter("k3_expert_lookups_total", "Experts used, by whether they were in memory (hit) or had to be read (miss).");
  out.sample("result=\"hit\"", drive.expert_hits);
  out.sample("result=\"miss\"", drive.expert_misses);
  out.counter("k3_expert_reads_total", "Reads of experts from the drive.", work.expert_reads);
  out.counter("k3_expert_read_bytes_total", "Bytes of experts read from the drive.", drive.expert_bytes);
  out.counter("k3_expert_read_errors_total", "Experts that could not be read.", work.expert_errors);
  out.counter("k3_expert_parked_total", "Reads of experts on their way when their request was cancelled.", work.expert_parked);
  out.counter("k3_expert_read_seconds_total", "Time with at least one read of an expert on its way.", work.expert_reading_s);
  out.counter("k3_expert_guesses_total", "Experts read before anything asked for them.", work.expert_guesses);
  out.counter("k3_expert_guesses_used_total", "Of those, experts that something asked for then.", work.expert_guesses_used);
  out.counter("k3_expert_choices_predicted_total", "Experts chosen where there had been a prediction.", work.predicted_choices);
  out.counter("k3_expert_choices_foreseen_total", "Of those, experts that had been predicted.", work.foreseen_choices);
  out.counter("k3_trunk_reads_total", "Reads of blocks of weights that do not fit into memory.", work.trunk_reads);
  out.counter("k3_trunk_read_bytes_total", "Bytes of such blocks read from the drive.", drive.trunk_bytes);
  out.counter("k3_drive_wait_seconds_total", "Time the arithmetic stood still for want of bytes.");
  out.sample("what=\"experts\"", drive.expert_wait_s);
  out.sample("what=\"trunk\"", drive.trunk_wait_s);
}

void write_model(Exposition& out, const ModelStatus& status) {
  const WorkDone& work = status.work;
  out.gauge("k3_jobs", "What the model has to do: one job runs, the others wait in its queue.");
  out.sample("state=\"running\"", status.running);
  out.sample("state=\"queued\"", status.queued);
  out.counter("k3_prompt_tokens_total", "Tokens of prompts, by whether they were computed or found computed.");
  out.sample("source=\"computed\"", work.prompt_tokens);
  out.sample("source=\"cached\"", work.cached_prompt_tokens);
  out.counter("k3_decoded_tokens_total", "Tokens the model has written, for whomever.", work.decoded_tokens);
  out.counter(
      "k3_step_seconds_total",
      "Where the time of steps goes: serial before a layer's experts are known, overlapped with their reads, waiting for bytes.");
  out.sample("phase=\"serial\"", work.serial_s);
  out.sample("phase=\"overlapped\"", work.overlapped_s);
  out.sample("phase=\"waiting\"", work.drive.expert_wait_s + work.drive.trunk_wait_s);
  write_drive(out, work);
}

}  // namespace

// While the model loads and while the server drains too: that is when one looks. Every series of the model begins at zero.
Response metrics(const Request&, App& app) {
  Exposition out;
  write_server(out, app);
  write_process(out);
  write_model(out, app.model ? app.model->status() : ModelStatus{});
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = out.take()};
}

}  // namespace k3::server
