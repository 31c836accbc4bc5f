// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads one request's head, writes the answer, closes.
#include "tests/datasets/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace ddpbench::data {

HttpAnswer http_answer(const std::string& status, const std::string& body,
                       const std::string& headers) {
  return {fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}", status,
                      body.size(), headers, body)};
}

HttpAnswer http_answer_of_length(std::size_t claimed_length, const std::string& body) {
  return {fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                      claimed_length, body)};
}

namespace {

HttpAnswer part_of(const std::string& body, std::size_t start) {
  return http_answer(
      "206 Partial Content", body.substr(start),
      fmt::format("Content-Range: bytes {}-{}/{}\r\n", start, body.size() - 1, body.size()));
}

}  // namespace

HttpServer::HttpServer() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  url_ = fmt::format("http://127.0.0.1:{}/", ntohs(address.sin_port));
  thread_ = std::thread([this] { run(); });
}

HttpServer::~HttpServer() {
  shutdown(listener_, SHUT_RDWR);  // ends accept()
  thread_.join();
  close(listener_);
}

void HttpServer::serve(const std::string& path, HttpAnswer answer) {
  const std::lock_guard lock(mutex_);
  answers_[path] = std::move(answer);
}

std::vector<std::string> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::run() {
  for (;;) {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) return;
    answer(connection);
    close(connection);
  }
}

void HttpServer::answer(int connection) {
  std::string head;
  std::array<char, 1024> buffer{};
  while (head.find("\r\n\r\n") == std::string::npos) {
    const ssize_t n = recv(connection, buffer.data(), buffer.size(), 0);
    if (n <= 0) return;
    head.append(buffer.data(), static_cast<std::size_t>(n));
  }
  const std::size_t start = head.find(' ') + 1;
  const std::string path = head.substr(start, head.find(' ', start) - start);
  HttpAnswer reply = http_answer("404 Not Found", "no such file");
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = answers_.find(path); found != answers_.end()) reply = found->second;
    const std::size_t range = head.find("Range: bytes=");
    if (range != std::string::npos) {
      const std::string part = head.substr(range + 7, head.find('\r', range) - range - 7);
      requests_.push_back(path + " " + part);
      if (!reply.body.empty()) reply = part_of(reply.body, std::stoul(part.substr(6)));
    } else {
      requests_.push_back(path);
    }
  }
  for (std::size_t sent = 0; sent < reply.bytes.size();) {
    const ssize_t n =
        send(connection, reply.bytes.data() + sent, reply.bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
  while (reply.hold && recv(connection, buffer.data(), buffer.size(), 0) > 0) {
  }
}

}  // namespace ddpbench::data
