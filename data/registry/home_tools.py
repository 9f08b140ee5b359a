"""Smart-home tools as plain Python functions: index them as ``home_tools.py:TOOLS``.

The bodies only echo what they were asked for: the module is sample data for the
Python reader, no driver of real devices.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal


class AlarmMode(str, Enum):
    """How the burglar alarm is set."""

    OFF = "off"
    NIGHT = "night"
    AWAY = "away"


def set_light(
    room: str, on: bool = True, brightness: int | None = None, colour: str | None = None
) -> dict[str, Any]:
    """Switch the lamps of a room on or off, dim them, or change their colour.

    Args:
        room: Name of the room, or "all".
        on: Whether the lamps shall burn.
        brightness: 1 to 100 percent; None leaves it as it is.
        colour: A colour name, or a temperature such as "2700K".
    """
    return {"room": room, "on": on, "brightness": brightness, "colour": colour}


def set_thermostat(
    room: str, celsius: float, hours: float | None = None
) -> dict[str, Any]:
    """Set the target temperature of the heating or air conditioning.

    Args:
        room: Name of the room, or "all".
        celsius: Wanted temperature.
        hours: For how long; None until it is changed again.
    """
    return {"room": room, "celsius": celsius, "hours": hours}


def lock_door(door: str = "front", locked: bool = True) -> dict[str, Any]:
    """Lock or unlock an outside door.

    Args:
        door: Which door.
        locked: False to unlock.
    """
    return {"door": door, "locked": locked}


def move_blinds(window: str, position: int) -> dict[str, Any]:
    """Raise or lower blinds, shutters or awnings.

    Args:
        window: Window, room or side of the house.
        position: 0 is fully open, 100 fully closed.
    """
    return {"window": window, "position": position}


def start_vacuum(
    rooms: list[str] | None = None, mode: Literal["quiet", "normal", "mop"] = "normal"
) -> dict[str, Any]:
    """Send the robot vacuum out to clean the floor, or only certain rooms.

    Args:
        rooms: Rooms to clean; None for all.
        mode: Suction, or wet mopping.
    """
    return {"rooms": rooms, "mode": mode}


def arm_alarm(mode: AlarmMode, code: str) -> dict[str, Any]:
    """Arm or disarm the burglar alarm of the house.

    Args:
        mode: Off, night (only the outer shell) or away (everything).
        code: The owner's code.
    """
    return {"mode": mode.value, "code": bool(code)}


def camera_snapshot(camera: str) -> dict[str, Any]:
    """Take a still picture with a security camera, such as the one at the front door.

    Args:
        camera: Which camera.
    """
    return {"camera": camera, "file_id": "img_0001"}


def run_scene(name: str) -> dict[str, Any]:
    """Run a stored scene that sets many devices at once, such as "good night" or "movie".

    Args:
        name: Name of the scene.
    """
    return {"scene": name}


def water_garden(zone: str = "lawn", minutes: int = 10) -> dict[str, Any]:
    """Open the irrigation valves of a garden zone for some minutes.

    Args:
        zone: Lawn, beds, hedge or greenhouse.
        minutes: How long the water runs.
    """
    return {"zone": zone, "minutes": minutes}


def read_sensor(
    sensor: str,
    kind: Literal["temperature", "humidity", "co2", "motion", "door", "leak"],
) -> float:
    """Read a sensor in the house: room temperature, humidity, CO2, motion, open doors, water leaks.

    Args:
        sensor: Room or name of the sensor.
        kind: What to read.

    Returns:
        The latest value; for motion, door and leak 1.0 means yes.
    """
    return float(len(sensor) + len(kind))


def energy_report(
    period: Literal["day", "week", "month", "year"] = "day",
) -> dict[str, Any]:
    """Report the electricity that the house used and the solar panels made, by device.

    Args:
        period: Span that ends now.
    """
    return {"period": period, "used_kwh": 0.0, "made_kwh": 0.0}


def start_appliance(
    appliance: Literal["dishwasher", "washer", "dryer", "oven", "coffee"],
    program: str = "eco",
    finish_at: str | None = None,
) -> dict[str, Any]:
    """Start a household appliance now, or so that it is done at a given time.

    Args:
        appliance: The machine.
        program: Its programme.
        finish_at: Time of day as HH:MM; None starts at once.
    """
    return {"appliance": appliance, "program": program, "finish_at": finish_at}


def charge_car(limit_percent: int = 80, only_solar: bool = False) -> dict[str, Any]:
    """Charge the electric car at the wall box up to a limit.

    Args:
        limit_percent: Stop at this state of charge.
        only_solar: Use nothing but surplus solar power.
    """
    return {"limit_percent": limit_percent, "only_solar": only_solar}


TOOLS = [
    set_light,
    set_thermostat,
    lock_door,
    move_blinds,
    start_vacuum,
    arm_alarm,
    camera_snapshot,
    run_scene,
    water_garden,
    read_sensor,
    energy_report,
    start_appliance,
    charge_car,
]
