// SPDX-License-Identifier: Apache-2.0
// A heated floor over 20 steps of time: water is drawn from a tank through a tube in a slab, warms
// the slab, and comes back to the tank; slab and tank lose heat to the room. Loss: how far the slab
// ends from the temperature that is wanted, by all numbers of five structs.
//
// Newton's law of cooling determines the flows of heat: from the slab h A (T - T_room), from the
// tank U (T - T_room). Through the wall of the tube, of conductance G = 2 pi k L / log(r_out /
// r_in), water of heat flow capacity C (W/K) releases C (1 - exp(-G / C)) (T_water - T_slab): the
// law integrated along the tube. A body of heat capacity m c warms by the heat it gets over m c.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "etude/diff/scan.h"

namespace etude::bench::numbers {

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
struct Room {
  T temperature, film;  // K, W/(m2 K)
};

template <class T>
struct House {
  Tube<T> tube;
  Slab<T> slab;
  Water<T> water;
  Tank<T> tank;
  Room<T> room;
};

// Calls fn with each number of a house, in the order of declaration.
template <class House, class Fn>
void each_number(House& house, const Fn& fn) {
  const auto each = [&](auto&... numbers) { (fn(numbers), ...); };
  auto& [tube, slab, water, tank, room] = house;
  each(tube.length, tube.radius, tube.wall, tube.conductivity);
  each(slab.area, slab.thickness, slab.density, slab.heat, slab.temperature);
  each(water.flow, water.density, water.heat, water.temperature);
  each(tank.volume, tank.loss, tank.temperature);
  each(room.temperature, room.film);
}
template <class T>
House<T> house_of(const std::vector<T>& numbers) {
  House<T> house;
  std::size_t next = 0;
  each_number(house, [&](T& number) { number = numbers[next++]; });
  return house;
}

template <class T>
struct Temperatures {
  T water, tank, slab;
};

struct Thermal {
  static constexpr int kSteps = 20;
  static constexpr double kStep = 60;     // s
  static constexpr double kWanted = 300;  // K

  House<double> house = {.tube = {120, 0.008, 0.002, 0.4},
                         .slab = {40, 0.08, 2300, 880, 291},
                         .water = {2e-4, 990, 4180, 295},
                         .tank = {0.3, 5, 330},
                         .room = {289, 9}};

  template <class T>
  T operator()(const House<T>& house) const {
    Temperatures<T> at = start(house);
    for (int i = 0; i < kSteps; ++i) at = step(at, house);
    return loss(at);
  }
  // The same with a loop whose derivative is compiled.
  template <class T>
  T by_scan(const House<T>& house) const {
    const auto body = [](const auto& at, const auto& all) { return step(at, all); };
    return loss(etude::scan(kSteps, start(house), house, body));
  }

  House<double> hand() const;

 private:
  template <class T>
  static constexpr Temperatures<T> start(const House<T>& house) {
    return {house.water.temperature, house.tank.temperature, house.slab.temperature};
  }
  template <class T>
  static constexpr T loss(const Temperatures<T>& at) {
    using std::fabs;
    return fabs(at.slab - kWanted);
  }
  template <class T>
  static constexpr Temperatures<T> step(const Temperatures<T>& at, House<T> house) {
    auto& [tube, slab, water, tank, room] = house;
    water.temperature = at.water;
    tank.temperature = at.tank;
    slab.temperature = at.slab;
    mix(water, tank);
    cool(tank, water, room);
    pass(water, tube, slab);
    cool(slab, room);
    return start(house);
  }

  // The water of one step comes back to the tank, and the same amount leaves it, as warm as the
  // tank was.
  template <class T>
  static constexpr void mix(Water<T>& water, Tank<T>& tank) {
    const T share = water.flow * kStep / tank.volume;
    const T warm = tank.temperature;
    tank.temperature += share * (water.temperature - warm);
    water.temperature = warm;
  }
  template <class T>
  static constexpr void cool(Tank<T>& tank, const Water<T>& water, const Room<T>& room) {
    const T capacity = tank.volume * water.density * water.heat;
    tank.temperature -= tank.loss * (tank.temperature - room.temperature) * kStep / capacity;
  }
  template <class T>
  static constexpr T capacity_of(const Slab<T>& slab) {
    return slab.area * slab.thickness * slab.density * slab.heat;
  }
  template <class T>
  static constexpr T conductance_of(const Tube<T>& tube) {
    using std::log;
    const T wall = log((tube.radius + tube.wall) / tube.radius);
    return 2 * std::numbers::pi * tube.conductivity * tube.length / wall;
  }
  template <class T>
  static constexpr void pass(Water<T>& water, const Tube<T>& tube, Slab<T>& slab) {
    using std::exp;
    const T carried = water.flow * water.density * water.heat;
    const T given = 1.0 - exp(-conductance_of(tube) / carried);
    const T drop = given * (water.temperature - slab.temperature);
    water.temperature -= drop;
    slab.temperature += carried * drop * kStep / capacity_of(slab);
  }
  template <class T>
  static constexpr void cool(Slab<T>& slab, const Room<T>& room) {
    const T heat = room.film * slab.area * (slab.temperature - room.temperature);
    slab.temperature -= heat * kStep / capacity_of(slab);
  }

  struct Course;
};

// The steps are linear in the temperatures w (water), k (tank), s (slab), with five factors that
// are the same in all of them:
//
//   k += mixed (w - k), w = the old k;  k -= lost (k - r);  d = given (w - s);  w -= d;
//   s += warmed d;  s -= cooled (s - r)
struct Thermal::Course {
  double mixed, lost, given, warmed, cooled;

  explicit Course(const House<double>& h) {
    const double carried = h.water.flow * h.water.density * h.water.heat;
    const double capacity = capacity_of(h.slab);
    mixed = h.water.flow * kStep / h.tank.volume;
    lost = h.tank.loss * kStep / (h.tank.volume * h.water.density * h.water.heat);
    given = 1 - std::exp(-conductance_of(h.tube) / carried);
    warmed = carried * kStep / capacity;
    cooled = h.room.film * h.slab.area * kStep / capacity;
  }

  struct Kept {
    double w_less_k, k_less_r, w_less_s, s_less_r;
  };
  Kept step(double& w, double& k, double& s, double r) const {
    Kept kept;
    const double old = k;
    kept.w_less_k = w - k;
    k += mixed * kept.w_less_k;
    kept.k_less_r = k - r;
    k -= lost * kept.k_less_r;
    kept.w_less_s = old - s;
    w = old - given * kept.w_less_s;
    s += warmed * given * kept.w_less_s;
    kept.s_less_r = s - r;
    s -= cooled * kept.s_less_r;
    return kept;
  }

  // Adds the cotangents of the factors and of r for one step; w, k and s are cotangents.
  void step_back(const Kept& kept, double& w, double& k, double& s, double& r, Course& back) const {
    back.cooled -= s * kept.s_less_r;
    back.lost -= k * kept.k_less_r;
    r += s * cooled + k * lost;
    s -= s * cooled;
    k -= k * lost;
    const double of_drop = s * warmed - w;
    back.warmed += s * given * kept.w_less_s;
    back.given += of_drop * kept.w_less_s;
    s -= of_drop * given;
    back.mixed += k * kept.w_less_k;
    const double of_old = w + of_drop * given + k - k * mixed;
    w = k * mixed;
    k = of_old;
  }

  // Adds the contributions of the factors to the tangent. Most factors are products of powers,
  // whose derivative by a number is power times product over that number.
  void into(const Course& back, const House<double>& h, House<double>& out) const {
    const double of_mixed = back.mixed * mixed, of_lost = back.lost * lost;
    const double of_warmed = back.warmed * warmed, of_cooled = back.cooled * cooled;
    const double carried = h.water.flow * h.water.density * h.water.heat;
    const double conductance = conductance_of(h.tube);
    // By the logarithm of conductance / carried.
    const double of_ratio = back.given * (1 - given) * conductance / carried;
    const double of_carried = of_warmed - of_ratio, of_capacity = of_warmed + of_cooled;
    const double wall = std::log((h.tube.radius + h.tube.wall) / h.tube.radius);
    const double outside = of_ratio / wall / (h.tube.radius + h.tube.wall);
    out.tube.length += of_ratio / h.tube.length;
    out.tube.conductivity += of_ratio / h.tube.conductivity;
    out.tube.wall -= outside;
    out.tube.radius += of_ratio / wall / h.tube.radius - outside;
    out.slab.area += (of_cooled - of_capacity) / h.slab.area;
    out.slab.thickness -= of_capacity / h.slab.thickness;
    out.slab.density -= of_capacity / h.slab.density;
    out.slab.heat -= of_capacity / h.slab.heat;
    out.water.flow += (of_mixed + of_carried) / h.water.flow;
    out.water.density += (of_carried - of_lost) / h.water.density;
    out.water.heat += (of_carried - of_lost) / h.water.heat;
    out.tank.volume -= (of_mixed + of_lost) / h.tank.volume;
    out.tank.loss += of_lost / h.tank.loss;
    out.room.film += of_cooled / h.room.film;
  }
};

inline House<double> Thermal::hand() const {
  const Course course(house);
  std::array<Course::Kept, kSteps> kept;
  double w = house.water.temperature, k = house.tank.temperature, s = house.slab.temperature;
  for (auto& each : kept) each = course.step(w, k, s, house.room.temperature);
  Course back = course;
  back.mixed = back.lost = back.given = back.warmed = back.cooled = 0;
  House<double> out{};
  w = k = 0;
  s = s > kWanted ? 1 : -1;
  for (std::size_t i = kept.size(); i-- > 0;) {
    course.step_back(kept[i], w, k, s, out.room.temperature, back);
  }
  out.water.temperature = w;
  out.tank.temperature = k;
  out.slab.temperature = s;
  course.into(back, house, out);
  return out;
}

}  // namespace etude::bench::numbers
