#include "launcher/observe/metrics_server.h"

#include <fmt/core.h>

namespace trireme {
namespace {

HttpAnswer answer(const HttpRequest& request, const std::function<std::string()>& text) {
  if (request.path != "/metrics")
    return {.status = 404, .body = "The metrics of this run are at /metrics, and /healthz answers ok\n"};
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = text()};
}

}  // namespace

MetricsServer::MetricsServer(const std::string& address, std::function<std::string()> text)
    : server_(
          {.address = address,
           .setting = fmt::format("log.listen = \"{}\"", address),
           .answer = [text = std::move(text)](const HttpRequest& request) { return answer(request, text); },
           .max_connections = 128,
           .max_streams = 0,
           .max_seconds = 5}) {}

}  // namespace trireme
