#include "model/run_with_experts.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>

namespace k3 {

namespace {

using boost::asio::awaitable;

awaitable<Result<void>> run_all(const LoadedModel& model, const ExpertTask& task, boost::asio::io_context& context) {
  auto experts = experts::ExpertStream::open(model.checkpoint, context, model.stream);
  if (experts.has_error()) co_return experts.error();
  Result<void> outcome;
  try {
    outcome = co_await task(**experts);
  } catch (const std::exception& e) {
    outcome = fail(ErrorCode::internal, std::string("the run threw: ") + e.what());
  }
  co_await (*experts)->drain();  // whatever happened: reads in flight write into the stream's slots
  co_return outcome;
}

}  // namespace

Result<void> run_with_experts(const LoadedModel& model, const ExpertTask& task) {
  boost::asio::io_context context(1);
  Result<void> outcome;
  std::exception_ptr thrown;
  boost::asio::co_spawn(context, run_all(model, task, context), [&](std::exception_ptr e, Result<void> result) {
    thrown = e;
    if (!e) outcome = std::move(result);
  });
  try {
    context.run();
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return fail(ErrorCode::internal, std::string("the run threw: ") + e.what());
  }
  return outcome;
}

}  // namespace k3
