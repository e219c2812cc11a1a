// SPDX-License-Identifier: Apache-2.0
// A heated floor in plain structs of numbers: water from a tank passes through a tube in a slab and
// comes back; slab and tank lose heat to the room. Used by building.cc.
#pragma once

#include <cmath>
#include <numbers>

#include "etude/diff.h"

template <class T>
struct Tube {
  T length, radius, wall, conductivity;  // m, m, m, W/(m K)
};
template <class T>
struct Slab {
  T area, thickness, density, heat, temperature;  // m2, m, kg/m3, J/(kg K), K
};
template <class T>
struct Water {
  T flow, density, heat, temperature;  // m3/s, kg/m3, J/(kg K), K
};
template <class T>
struct Tank {
  T volume, loss, temperature;  // m3, W/K, K
};
template <class T>
struct House {
  Tube<T> tube;
  Slab<T> slab;
  Water<T> water;
  Tank<T> tank;
  T room, film;  // K, W/(m2 K)
};
template <class T>
struct Now {
  T water, tank, slab;
};

constexpr double kMinute = 60;
// One minute: each body warms by the heat that it receives over its heat capacity.
constexpr auto kStep = [](const auto& now, const auto& h) {
  using std::exp, std::log;
  const auto carried = h.water.flow * h.water.density * h.water.heat;
  const auto wall = log((h.tube.radius + h.tube.wall) / h.tube.radius);
  const auto conducted = 2 * std::numbers::pi * h.tube.conductivity * h.tube.length / wall;
  const auto slab_holds = h.slab.area * h.slab.thickness * h.slab.density * h.slab.heat;
  const auto tank_holds = h.tank.volume * h.water.density * h.water.heat;
  auto next = now;
  next.tank +=
      (carried * (now.water - now.tank) - h.tank.loss * (now.tank - h.room)) * kMinute / tank_holds;
  const auto drop = (1.0 - exp(-conducted / carried)) * (now.tank - now.slab);
  next.water = now.tank - drop;
  next.slab += (carried * drop - h.film * h.slab.area * (now.slab - h.room)) * kMinute / slab_holds;
  return next;
};

template <class T>
T after_20_minutes(const House<T>& h) {
  const Now<T> start{h.water.temperature, h.tank.temperature, h.slab.temperature};
  return etude::scan(20, start, h, kStep).slab;
}
