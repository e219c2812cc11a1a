// SPDX-License-Identifier: Apache-2.0
// The program etude-serve, which `etude serve` starts.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <fmt/format.h>

#include "etude/version.h"
#include "serve/grpc_server.h"
#include "serve/http_server.h"
#include "serve/log.h"
#include "serve/refuse.h"
#include "serve/repository.h"
#include "serve/service.h"
#include "serve/shutdown.h"

namespace etude::serve {
namespace {

struct Options {
  std::vector<std::string> folders;
  RepositoryOptions repository;
  ServiceOptions service;
  HttpOptions http;
  GrpcOptions grpc;
  std::string http_port = "8000", grpc_port, token_file, access_log = "-";
  double delay_ms = 0, timeout_s = 60, poll_s = 2, drain_s = 30, read_timeout_s = 30;
  int64_t body_mb = 256, json_mb = 16, memory_mb = 1024;
  bool insecure = false;
};

// CLI::Range takes NaN.
CLI::Validator between(double least, double most) {
  return {[least, most](std::string& text) -> std::string {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            if (is_number && value >= least && value <= most) return "";
            return fmt::format("'{}' is no number from {} to {}", text, least, most);
          },
          fmt::format("from {} to {}", least, most), ""};
}

CLI::Validator not_empty() {
  return {[](std::string& text) -> std::string {
            if (!text.empty()) return "";
            return "the text is empty. Is a variable not set? Leave the option away for none";
          },
          "", ""};
}

void add_model_options(CLI::App& app, Options& options) {
  ModelOptions& model = options.repository.model;
  app.add_option("FOLDER", options.folders,
                 "a saved folder, a folder of versions (1, 2, ...), or a folder of such models")
      ->required();
  app.add_option("--function", model.function, "the function to serve, if a program has several");
  app.add_option("--batch", model.max_rows,
                 "joins requests up to this number of rows of axis 0; 1 joins none")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--delay", options.delay_ms, "how long a request waits for others to join, in ms")
      ->check(between(0.0, 60000.0))
      ->capture_default_str();
  app.add_option("--queue", model.queue, "requests that may wait for one model")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--workers", model.workers, "calls of one model at the same time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--max-loop-steps", model.max_loop_steps,
                 "refuses models with longer loops; 0: no limit")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 62))
      ->capture_default_str();
  app.add_option("--versions", options.repository.versions, "the newest versions that are served")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--poll", options.poll_s, "looks for new versions every so many seconds")
      ->check(between(0.05, 86400.0))
      ->capture_default_str();
}

void add_server_options(CLI::App& app, Options& options) {
  app.add_option("--host", options.http.host, "the address to listen on")->capture_default_str();
  app.add_option("--http-port", options.http_port, "0: a free port; off: no HTTP")
      ->capture_default_str();
  app.add_option("--grpc-port", options.grpc_port,
                 "0: a free port; off: no gRPC (default: 8001 if this program has gRPC)");
  app.add_option("--timeout", options.timeout_s, "the longest that a request may take, in seconds")
      ->check(between(0.001, 86400.0))
      ->capture_default_str();
  app.add_option("--read-timeout", options.read_timeout_s,
                 "the longest that a client may take to send a request or to read an answer")
      ->check(between(0.05, 86400.0))
      ->capture_default_str();
  app.add_option("--drain", options.drain_s, "after SIGTERM, waits so many seconds for requests")
      ->check(between(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--connections", options.http.connections, "open connections of HTTP")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--http-threads", options.http.threads, "threads that read and write HTTP")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--body-limit", options.body_mb, "MiB of one request")
      ->check(CLI::Range(1, 2047))
      ->capture_default_str();
  app.add_option("--json-limit", options.json_mb, "MiB of the JSON of one request")
      ->check(CLI::Range(1, 2047))
      ->capture_default_str();
  app.add_option("--memory", options.memory_mb,
                 "MiB of the bodies of requests and answers together")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--access-log", options.access_log, "a file; -: standard error; off: none")
      ->capture_default_str();
}

void add_security_options(CLI::App& app, Options& options) {
  app.add_option("--token", options.service.token,
                 "clients must send it: 'Authorization: Bearer TOKEN'. Other users of the machine "
                 "can read it; see --token-file")
      ->check(not_empty());
  app.add_option("--token-file", options.token_file, "a file with the token in its first line")
      ->check(not_empty())
      ->excludes("--token");
  CLI::Option* certificate =
      app.add_option("--tls-cert", options.http.tls.certificate, "PEM file of certificates: TLS");
  CLI::Option* key = app.add_option("--tls-key", options.http.tls.key, "PEM file of its key");
  certificate->needs(key);
  key->needs(certificate);
  app.add_option("--tls-client-ca", options.http.tls.client_ca,
                 "PEM file; clients need a certificate that it has signed")
      ->needs(certificate);
  app.add_flag("--insecure", options.insecure, "allows another --host than loopback without TLS");
}

uint16_t port_of(const std::string& text, const char* option) {
  try {
    std::size_t end = 0;
    const int port = std::stoi(text, &end);
    if (end == text.size() && port >= 0 && port <= 65535) return static_cast<uint16_t>(port);
  } catch (const std::exception&) {  // reported below
  }
  refuse(ErrorCode::kInvalidArgument, "{} is '{}', but must be a port from 0 to 65535, or off",
         option, text);
}

void read_token(Options& options) {
  constexpr std::uintmax_t kMost = 64 << 10;
  if (options.token_file.empty()) return;
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(options.token_file, error);
  const std::uintmax_t size = is_file ? std::filesystem::file_size(options.token_file, error) : 0;
  if (error || !is_file || size > kMost) {
    refuse(ErrorCode::kInvalidArgument,
           "--token-file '{}' {}, but must be a regular file of up to {} bytes with the token in "
           "its first line",
           options.token_file,
           error     ? "cannot be read (" + error.message() + ")"
           : is_file ? fmt::format("has {} bytes", size)
                     : "is no regular file",
           kMost);
  }
  std::ifstream in(options.token_file);
  std::string& token = options.service.token;
  std::getline(in, token);
  token.erase(token.find_last_not_of(" \t\r") + 1);  // also the line ends of other systems
  if (token.empty()) {
    refuse(ErrorCode::kNotFound, "--token-file '{}' has no token in its first line",
           options.token_file);
  }
}

void check_host(Options& options) {
  std::string& host = options.http.host;
  if (host == "localhost") host = "127.0.0.1";
  unsigned char address[16];
  const bool is_four = ::inet_pton(AF_INET, host.c_str(), address) == 1;
  if (!is_four && ::inet_pton(AF_INET6, host.c_str(), address) != 1) {
    refuse(ErrorCode::kInvalidArgument,
           "--host is '{}', but must be an IP address, such as 127.0.0.1, or localhost", host);
  }
  const bool is_loopback = host == "::1" || (is_four && address[0] == 127);
  if (is_loopback || options.insecure || !options.http.tls.certificate.empty()) return;
  refuse(ErrorCode::kInvalidArgument,
         "--host {} is not loopback, and there is no TLS: others can read and change requests. "
         "Give --tls-cert and --tls-key, or --insecure, such as for a proxy on the same network",
         host);
}

std::chrono::milliseconds ms_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

void complete(Options& options) {
  read_token(options);
  check_host(options);
  options.repository.model.delay =
      std::chrono::microseconds(static_cast<int64_t>(options.delay_ms * 1e3));
  options.repository.poll = ms_of(options.poll_s);
  options.service.timeout = ms_of(options.timeout_s);
  options.service.limits.json_bytes = static_cast<std::size_t>(options.json_mb) << 20;
  options.http.body_bytes = static_cast<std::size_t>(options.body_mb) << 20;
  options.http.memory_bytes = options.memory_mb << 20;
  options.http.read_timeout = ms_of(options.read_timeout_s);
  options.grpc.message_bytes = options.http.body_bytes;
  options.grpc.memory_bytes = options.http.memory_bytes;
  options.grpc.read_timeout = options.http.read_timeout;
  options.grpc.host = options.http.host;
  options.grpc.tls = options.http.tls;
  if (options.grpc_port.empty()) options.grpc_port = has_grpc() ? "8001" : "off";
  if (options.http_port != "off") options.http.port = port_of(options.http_port, "--http-port");
  if (options.grpc_port != "off") options.grpc.port = port_of(options.grpc_port, "--grpc-port");
  if (options.http_port == "off" && options.grpc_port == "off") {
    refuse(ErrorCode::kInvalidArgument, "--http-port and --grpc-port are both off");
  }
}

void print_addresses(const Options& options, const HttpServer* http, const GrpcServer* grpc) {
  const char* scheme = options.http.tls.certificate.empty() ? "http" : "https";
  const bool is_six = options.http.host.find(':') != std::string::npos;
  const std::string host = is_six ? "[" + options.http.host + "]" : options.http.host;
  if (http) fmt::print("HTTP on {}://{}:{}\n", scheme, host, http->port());
  if (grpc) fmt::print("gRPC on {}:{}\n", host, grpc->port());
  std::fflush(stdout);
}

int serve(Options& options) {
  complete(options);
  Log log("-"), access(options.access_log);
  Metrics metrics;
  Shutdown shutdown(ms_of(options.drain_s), log, metrics);
  add_process_gauges(metrics);
  std::vector<std::filesystem::path> folders(options.folders.begin(), options.folders.end());
  Repository repository(folders, options.repository, metrics,
                        [&](const std::string& line) { log.write(line); });
  Service service(repository, metrics, options.service);
  if (access.is_on()) {
    options.http.access_log = [&](const std::string& line) { access.write(line); };
  }
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<GrpcServer> grpc;
  shutdown.serve();
  if (options.http_port != "off") http = std::make_unique<HttpServer>(service, options.http);
  if (options.grpc_port != "off") grpc = std::make_unique<GrpcServer>(service, options.grpc);
  if (http && http->threads() < static_cast<std::size_t>(options.http.threads)) {
    log.write(fmt::format("HTTP has {} of {} threads: the process gets no further thread",
                          http->threads(), options.http.threads));
  }
  print_addresses(options, http.get(), grpc.get());
  const Clock::time_point deadline = shutdown.wait();
  log.write("draining: no new connections; waiting for requests");
  service.drain();
  if (http) http->stop();  // its requests end while gRPC waits
  const bool grpc_is_done = !grpc || grpc->drain(deadline);
  const bool http_is_done = !http || http->drain(deadline);
  if (!grpc_is_done || !http_is_done) shutdown.cut();
  log.write("all requests are answered");
  return 0;
}

}  // namespace

int run_program(int argc, char** argv) {
  CLI::App app("Serves saved functions by the Open Inference Protocol", "etude serve");
  app.set_version_flag("--version", fmt::format("etude {}", version()));
  Options options;
  add_model_options(app, options);
  add_server_options(app, options);
  add_security_options(app, options);
  try {
    app.parse(argc, argv);
    return serve(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "etude serve: {}\n", error_of(error).text());
    return 1;
  }
}

}  // namespace etude::serve

int main(int argc, char** argv) { return etude::serve::run_program(argc, argv); }
