"""Writes `catch.gb`, a small game for the Game Boy: `python game_boy_game.py`.

START begins a game. A ball falls, and LEFT and RIGHT move a paddle that can catch it. After ten balls the game is over.
What a program needs to know is in memory: the balls that were caught at 0xC000, and at 0xC001 a 1 when it is over.

The game is machine code, written below as one instruction a line. In it, a text that ends in a colon names the place,
and the same text without the colon is the address of that place. Four of the processor's registers hold the game:

    b  the ball's row       c  the ball's column        d  the paddle's column      e  the buttons that are held

The numbers of the Game Boy's hardware are explained in the Pan Docs, https://gbdev.io/pandocs.
"""

from pathlib import Path

CAUGHT, OVER, BALLS = 0x00, 0x01, 0x02  # in memory, from 0xC000 on
START = 0x150  # of the program: the cartridge's header is before it
SIZE = 0x8000  # of the smallest cartridge

PROGRAM: list[int | str] = [
    # The picture can be changed as a whole only while it is switched off, which is allowed in line 144, below it.
    *("switch off:", 0xF0, 0x44),  # a = the line that is drawn now
    *(0xFE, 144),  # compare a with 144
    *(0xC2, "switch off"),  # jump back if they differ
    *(0xAF,),  # a = 0
    *(0xE0, 0x40),  # the picture's switches = a
    # Fill the picture's memory, 0x8000 to 0x9FFF, with zeros: nothing is left of the logo.
    *(0x21, 0x00, 0x80),  # hl = 0x8000
    *("clear:", 0xAF),  # a = 0
    *(0x22,),  # memory at hl = a, and hl = hl + 1
    *(0x7C,),  # a = the upper byte of hl
    *(0xFE, 0xA0),  # compare a with 0xA0
    *(0xC2, "clear"),
    # The same for the table of moving objects, 0xFE00 to 0xFE9F.
    *(0x21, 0x00, 0xFE),  # hl = 0xFE00
    *("clear objects:", 0xAF),  # a = 0
    *(0x22,),  # memory at hl = a, and hl = hl + 1
    *(0x7D,),  # a = the lower byte of hl
    *(0xFE, 0xA0),  # compare a with 0xA0
    *(0xC2, "clear objects"),
    # Picture 1 is a black square of 8 by 8 pixels: 16 bytes, all bits set.
    *(0x21, 0x10, 0x80),  # hl = 0x8010
    *(0x3E, 0xFF),  # a = 0xFF
    *(0x06, 16),  # b = 16
    *("square:", 0x22),  # memory at hl = a, and hl = hl + 1
    *(0x05,),  # b = b - 1
    *(0xC2, "square"),  # jump back unless b is 0
    *(0x3E, 0xE4),  # a = four grays, from white to black
    *(0xE0, 0x47),  # grays of the background = a
    *(0xE0, 0x48),  # grays of the objects = a
    *(0x3E, 0x93),  # a = picture on, with objects and background
    *(0xE0, 0x40),  # the picture's switches = a
    # A new game, as soon as START is pressed. A bit of 0 says that a button is held.
    *("title:", 0x3E, 0x10),  # a = 0x10: START, SELECT, B and A are asked for
    *(0xE0, 0x00),
    *(0xF0, 0x00),  # a = their bits
    *(0xCB, 0x5F),  # bit 3 of a: START
    *(0xC2, "title"),  # jump back unless it is 0
    *(0xAF,),  # a = 0
    *(0xEA, CAUGHT, 0xC0),  # memory = a
    *(0xEA, OVER, 0xC0),
    *(0xEA, BALLS, 0xC0),
    *(0x16, 80),  # d = 80: the paddle is in the middle
    *("new ball:", 0x06, 16),  # b = 16: the ball is in the highest row
    *(0xF0, 0x04),  # a = a fast clock, so it depends on when START was pressed
    *(0x81, 0x81, 0x81, 0x81, 0x81),  # a = a + 5 * c: the column before
    *(0xE6, 0x7F),  # a = its remainder by 128
    *(0xC6, 20, 0x4F),  # a = a + 20, and c = a: the ball's column
    # Once for each of the 59.73 frames a second: wait until line 144 was left, and came again.
    *("frame:", 0xF0, 0x44),  # a = the line that is drawn now
    *(0xFE, 144),
    *(0xCA, "frame"),  # jump back if they are equal
    *("wait:", 0xF0, 0x44),
    *(0xFE, 144),
    *(0xC2, "wait"),  # jump back if they differ
    *(0x3E, 0x20),  # a = 0x20: the four directions are asked for
    *(0xE0, 0x00),
    *(0xF0, 0x00, 0x5F),  # a = their bits, and e = a
    *(0xCB, 0x43),  # bit 0 of e: RIGHT
    *(0xC2, "not right"),
    *(0x7A,),  # a = d
    *(0xFE, 152),  # the right edge
    *(0xCA, "not right"),
    *(0x14, 0x14),  # d = d + 2
    *("not right:", 0xCB, 0x4B),  # bit 1 of e: LEFT
    *(0xC2, "not left"),
    *(0x7A,),  # a = d
    *(0xFE, 8),  # the left edge
    *(0xCA, "not left"),
    *(0x15, 0x15),  # d = d - 2
    *("not left:", 0x04, 0x04),  # b = b + 2: the ball falls
    # Draw three objects: the ball, and the halves of the paddle. Each has a row, a column, a picture and no extras.
    *(0x21, 0x00, 0xFE),  # hl = 0xFE00
    *(0x78, 0x22, 0x79, 0x22, 0x3E, 1, 0x22, 0xAF, 0x22),  # row b, column c, picture 1, 0
    *(0x3E, 152, 0x22, 0x7A, 0x22, 0x3E, 1, 0x22, 0xAF, 0x22),  # row 152, column d, picture 1, 0
    *(0x3E, 152, 0x22, 0x7A, 0xC6, 8, 0x22, 0x3E, 1, 0x22, 0xAF, 0x22),  # row 152, column d + 8, picture 1, 0
    *(0x78,),  # a = b
    *(0xFE, 144),  # the row above the paddle
    *(0xC2, "frame"),
    # The ball has landed. It is caught if it touches the paddle: if its column is -7 to 15 from the paddle's.
    *(0x79,),  # a = c
    *(0x92,),  # a = a - d
    *(0xC6, 7),  # a = a + 7
    *(0xFE, 23),
    *(0xD2, "missed"),  # jump if a is 23 or more
    *(0x21, CAUGHT, 0xC0, 0x34),  # one more is caught
    *("missed:", 0x21, BALLS, 0xC0, 0x34),  # one more has landed
    *(0x7E,),  # a = their number
    *(0xFE, 10),
    *(0xC2, "new ball"),
    *(0x3E, 1),  # a = 1
    *(0xEA, OVER, 0xC0),  # memory = a
    *(0xC3, "title"),  # jump
]


def machine_code(program: list[int | str], start: int) -> bytes:
    """The bytes of a program, with the addresses of its places in two bytes, the lower one first."""
    places: dict[str, int] = {}
    address = start
    for part in program:
        if isinstance(part, str) and part.endswith(":"):
            places[part.removesuffix(":")] = address
        else:
            address += 2 if isinstance(part, str) else 1
    code = b""
    for part in program:
        if isinstance(part, int):
            code += bytes([part])
        elif not part.endswith(":"):
            code += places[part].to_bytes(2, "little")
    return code


def cartridge() -> bytes:
    """All bytes of the cartridge. Nintendo's logo, without which a real Game Boy starts no game, is not in it."""
    rom = bytearray(SIZE)
    rom[0x100:0x104] = [0x00, 0xC3, *START.to_bytes(2, "little")]  # where it starts: jump to the program
    rom[0x134:0x139] = b"CATCH"
    rom[0x14D] = -sum(each + 1 for each in rom[0x134:0x14D]) % 256  # the header's checksum
    code = machine_code(PROGRAM, START)
    rom[START : START + len(code)] = code
    return bytes(rom)


if __name__ == "__main__":
    Path("catch.gb").write_bytes(cartridge())
