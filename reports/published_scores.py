"""Published returns, by game: of random play and of human players, and of Dopamine's agents after 10 million frames."""

import re


def game_name(env: str) -> str:
    return env.removesuffix("NoFrameskip-v4")


def published_name(env: str) -> str:
    """The game of an id, as tables of published scores call it: Pong for PongNoFrameskip-v4 and for ALE/Pong-v5."""
    return game_name(re.sub(r"^(?:.+:)?ALE/(\w+)-v\d+$", r"\1", env))


def human_normalised(env: str, mean: float) -> float | None:
    """0 for the score of random play and 1 for a human's; None for a game without published scores."""
    scores = RANDOM_AND_HUMAN.get(published_name(env))
    if scores is None:
        return None
    random, human = scores
    return (mean - random) / (human - random)


# Mean scores of random play and of a human player: the table of google-deepmind/dqn_zoo, except Surround, which has no
# NoFrameskip-v4 id.
RANDOM_AND_HUMAN = {
    "Alien": (227.8, 7127.7),
    "Amidar": (5.8, 1719.5),
    "Assault": (222.4, 742.0),
    "Asterix": (210.0, 8503.3),
    "Asteroids": (719.1, 47388.7),
    "Atlantis": (12850.0, 29028.1),
    "BankHeist": (14.2, 753.1),
    "BattleZone": (2360.0, 37187.5),
    "BeamRider": (363.9, 16926.5),
    "Berzerk": (123.7, 2630.4),
    "Bowling": (23.1, 160.7),
    "Boxing": (0.1, 12.1),
    "Breakout": (1.7, 30.5),
    "Centipede": (2090.9, 12017.0),
    "ChopperCommand": (811.0, 7387.8),
    "CrazyClimber": (10780.5, 35829.4),
    "Defender": (2874.5, 18688.9),
    "DemonAttack": (152.1, 1971.0),
    "DoubleDunk": (-18.6, -16.4),
    "Enduro": (0.0, 860.5),
    "FishingDerby": (-91.7, -38.7),
    "Freeway": (0.0, 29.6),
    "Frostbite": (65.2, 4334.7),
    "Gopher": (257.6, 2412.5),
    "Gravitar": (173.0, 3351.4),
    "Hero": (1027.0, 30826.4),
    "IceHockey": (-11.2, 0.9),
    "Jamesbond": (29.0, 302.8),
    "Kangaroo": (52.0, 3035.0),
    "Krull": (1598.0, 2665.5),
    "KungFuMaster": (258.5, 22736.3),
    "MontezumaRevenge": (0.0, 4753.3),
    "MsPacman": (307.3, 6951.6),
    "NameThisGame": (2292.3, 8049.0),
    "Phoenix": (761.4, 7242.6),
    "Pitfall": (-229.4, 6463.7),
    "Pong": (-20.7, 14.6),
    "PrivateEye": (24.9, 69571.3),
    "Qbert": (163.9, 13455.0),
    "Riverraid": (1338.5, 17118.0),
    "RoadRunner": (11.5, 7845.0),
    "Robotank": (2.2, 11.9),
    "Seaquest": (68.4, 42054.7),
    "Skiing": (-17098.1, -4336.9),
    "Solaris": (1236.3, 12326.7),
    "SpaceInvaders": (148.0, 1668.7),
    "StarGunner": (664.0, 10250.0),
    "Tennis": (-23.8, -8.3),
    "TimePilot": (3568.0, 5229.2),
    "Tutankham": (11.4, 167.6),
    "UpNDown": (533.4, 11693.2),
    "Venture": (0.0, 1187.5),
    "VideoPinball": (16256.9, 17667.9),
    "WizardOfWor": (563.5, 4756.5),
    "YarsRevenge": (3092.9, 54576.9),
    "Zaxxon": (32.5, 9173.3),
}


AGENTS = ("DQN", "DQN with Adam", "Rainbow")  # the columns of the table below

# Mean returns of training games in the tenth million of frames, five runs each: `baselines/atari/data` of
# google/dopamine. The games have sticky actions (0.25), no life information, at most 108,000 frames, and only the
# actions that each game needs; one in a hundred actions is random. DQN is the version in TensorFlow with RMSProp, DQN
# with Adam the one in JAX. There are no returns of Defender.
AT_10M_FRAMES = {
    "Alien": (925.6, 918.8, 1220.4),
    "Amidar": (178.1, 151.0, 301.4),
    "Assault": (988.2, 1131.4, 1430.3),
    "Asterix": (2381.7, 2193.6, 2699.2),
    "Asteroids": (424.0, 694.9, 755.0),
    "Atlantis": (7365.3, 13021.3, 80837.7),
    "BankHeist": (474.4, 621.0, 895.5),
    "BattleZone": (3598.5, 18594.1, 20209.1),
    "BeamRider": (869.3, 5218.0, 5982.6),
    "Berzerk": (488.5, 406.2, 443.2),
    "Bowling": (29.3, 28.0, 44.5),
    "Boxing": (37.3, 56.6, 68.4),
    "Breakout": (21.5, 46.9, 41.9),
    "Centipede": (2832.1, 1977.5, 4992.1),
    "ChopperCommand": (997.6, 846.1, 2265.5),
    "CrazyClimber": (64611.0, 55613.8, 103539.4),
    "DemonAttack": (1503.1, 2830.8, 2477.5),
    "DoubleDunk": (-18.9, -18.3, -18.9),
    "Enduro": (589.6, 926.0, 1601.1),
    "FishingDerby": (-42.5, -36.3, 10.4),
    "Freeway": (8.3, 6.7, 32.2),
    "Frostbite": (269.1, 1029.8, 2510.1),
    "Gopher": (1470.8, 2038.8, 4279.5),
    "Gravitar": (167.9, 238.3, 202.3),
    "Hero": (2679.3, 3033.1, 9323.8),
    "IceHockey": (-9.7, -7.8, -5.3),
    "Jamesbond": (47.3, 249.6, 514.6),
    "Kangaroo": (539.9, 1330.6, 5501.7),
    "Krull": (4229.2, 3041.5, 5972.5),
    "KungFuMaster": (15997.8, 16081.9, 18074.1),
    "MontezumaRevenge": (0.0, 0.0, 0.0),
    "MsPacman": (2187.2, 2074.1, 2347.5),
    "NameThisGame": (4000.9, 5553.2, 8604.0),
    "Phoenix": (4948.5, 3963.1, 4830.2),
    "Pitfall": (-60.8, -25.6, -14.7),
    "Pong": (-4.9, 6.3, 15.2),
    "PrivateEye": (118.3, 367.0, 111.3),
    "Qbert": (1658.4, 1495.0, 5353.9),
    "Riverraid": (3198.8, 3492.9, 4272.9),
    "RoadRunner": (27980.4, 30201.2, 33412.9),
    "Robotank": (4.5, 13.8, 19.1),
    "Seaquest": (299.6, 875.7, 1641.1),
    "Skiing": (-19568.8, -29702.0, -24070.0),
    "Solaris": (1645.3, 1399.3, 1289.5),
    "SpaceInvaders": (663.3, 704.5, 743.7),
    "StarGunner": (692.1, 1357.3, 1488.8),
    "Tennis": (-21.9, -9.9, -1.0),
    "TimePilot": (1539.8, 2347.1, 2703.7),
    "Tutankham": (112.2, 166.1, 179.5),
    "UpNDown": (7669.4, 4547.3, 12397.6),
    "Venture": (25.5, 18.0, 19.9),
    "VideoPinball": (5129.8, 33451.7, 26245.1),
    "WizardOfWor": (482.0, 1601.2, 2213.3),
    "YarsRevenge": (9426.7, 10358.3, 10708.5),
    "Zaxxon": (112.5, 1838.3, 3661.8),
}
